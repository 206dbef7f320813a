import { h, render } from 'preact';
import { App } from './app.ts';
import { openSource } from './source.ts';

render(h(App, { source: openSource() }), document.getElementById('app') as HTMLElement);
