/** The frame of every page: heading, navigation, and the page that the address names. */

import { h } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import type { Session } from '../src/api.ts';
import { AgentPage } from './agent-page.ts';
import { FleetPage } from './fleet-page.ts';
import { GoodputPage } from './goodput-page.ts';
import { SourceContext, useCall } from './live.ts';
import { Loading, linkTo, ProblemNote } from './parts.ts';
import { RunPage } from './run-page.ts';
import type { Source } from './source.ts';
import { VersionPage } from './version-page.ts';
import { time } from './words.ts';

export function App({ source }: { source: Source }) {
  return h(
    SourceContext.Provider,
    { value: source },
    source.hasToken ? h(Frame, { source }) : h(NoToken, null),
  );
}

function Frame({ source }: { source: Source }) {
  const { data: session, error } = useCall<Session>('/api/session', {});
  const { page: named, query } = useRoute();
  if (session === null)
    return error ? h('main', null, h(ProblemNote, { error })) : h(Loading, { what: 'the session' });
  const uri = query.get('uri') ?? (session.home === 'run' ? (session.uris[0] ?? '') : '');
  const page = named === '' ? session.home : named;
  return h(
    'div',
    { class: 'frame' },
    h(
      'header',
      null,
      h('a', { class: 'skip', href: '#main', onClick: skipToMain }, 'Skip to the content'),
      h('strong', null, 'Holdfast'),
      h(Navigation, { page, uri, session }),
      source.report ? h('span', { class: 'made' }, `Report of ${time(source.report.madeAtMs)}`) : null,
    ),
    h(
      'main',
      { id: 'main', tabIndex: -1 },
      h(Page, { page, uri, query, mayChange: session.mayChange, key: `${page} ${query}` }),
    ),
    h('footer', null, `Holdfast ${session.programVersion}. Times of commits are by the store's clock.`),
  );
}

/** A fragment is the address of a page here, so the browser cannot follow the link itself. */
function skipToMain(event: Event): void {
  event.preventDefault();
  document.getElementById('main')?.focus();
}

function Navigation({ page, uri, session }: { page: string; uri: string; session: Session }) {
  const links = [
    ...(session.home === 'fleet' ? [['fleet', 'Runs'] as const] : []),
    ...(uri === ''
      ? []
      : ([
          ['run', 'Run'],
          ['goodput', 'Goodput'],
        ] as const)),
    ...(session.hasAgent ? [['agent', 'Agent'] as const] : []),
  ];
  return h(
    'nav',
    { 'aria-label': 'Pages' },
    links.map(([name, title]) =>
      h(
        'a',
        {
          key: name,
          href: linkTo(name, name === 'fleet' || name === 'agent' ? {} : { uri }),
          'aria-current': page === name ? 'page' : undefined,
        },
        title,
      ),
    ),
  );
}

interface PageProps {
  readonly page: string;
  readonly uri: string;
  readonly query: URLSearchParams;
  readonly mayChange: boolean;
}

function Page({ page, uri, query, mayChange }: PageProps) {
  const [version, lineage] = [query.get('version') ?? '', query.get('lineage') ?? ''];
  if (page === 'version') return h(VersionPage, { uri, version, lineage, mayChange });
  if (page === 'fleet') return h(FleetPage, null);
  if (page === 'agent') return h(AgentPage, null);
  if (page === 'goodput') return h(GoodputPage, { uri });
  return h(RunPage, { uri, mayChange });
}

function NoToken() {
  return h(
    'main',
    { id: 'main' },
    h('h1', null, 'This address has no token'),
    h('p', null, 'Open the address that `holdfast ui` has printed. It ends with the token.'),
  );
}

interface Route {
  readonly page: string;
  readonly query: URLSearchParams;
}

function routeOf(hash: string): Route {
  const [page = '', search = ''] = hash.replace(/^#\/?/, '').split('?');
  return { page, query: new URLSearchParams(search) };
}

function useRoute(): Route {
  const [hash, setHash] = useState(location.hash);
  useEffect(() => {
    const changed = () => {
      setHash(location.hash);
      scrollTo(0, 0);
    };
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return routeOf(hash);
}
