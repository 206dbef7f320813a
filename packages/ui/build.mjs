// Builds the page: one HTML file with its script and style inside, so that it needs no other file and no network.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const HERE = import.meta.dirname;
const STYLES = ['base.css', 'pictures.css', 'lists.css'];

/** `'sha256-…'`, as a content security policy names an inline script or style. */
function cspHash(text) {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/**
 * Resolves to the page, and to the files that it consists of, as paths from `packages/ui`. The page has the mark
 * `<!--holdfast-data-->` at the place for the data of a report.
 */
export async function buildPage() {
  const { outputFiles, metafile } = await build({
    absWorkingDir: HERE,
    entryPoints: ['page/main.ts'],
    bundle: true,
    minify: true,
    format: 'iife',
    platform: 'browser',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    conditions: ['holdfast-source'],
    metafile: true,
    write: false,
    logLevel: 'warning',
  });
  // The end of a script element must not appear in the script.
  const script = outputFiles[0].text.trim().replaceAll('</script', '<\\/script');
  const style = STYLES.map((name) => readFileSync(join(HERE, 'page/styles', name), 'utf8'))
    .join('')
    .trim();
  const policy = [
    "default-src 'none'",
    `script-src ${cspHash(script)}`,
    `style-src ${cspHash(style)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
  const html = [
    '<!doctype html>',
    '<html lang="en">',
    '<head>',
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policy}">`,
    '<meta name="viewport" content="width=device-width, initial-scale=1">',
    '<meta name="color-scheme" content="light dark">',
    '<meta name="referrer" content="no-referrer">',
    '<title>Holdfast</title>',
    '<link rel="icon" href="data:,">',
    `<style>${style}</style>`,
    '</head>',
    '<body>',
    '<div id="app"></div>',
    '<noscript>This page needs JavaScript. It loads nothing from other places.</noscript>',
    '<!--holdfast-data-->',
    `<script>${script}</script>`,
    '</body>',
    '</html>',
    '',
  ].join('\n');
  return { html, policy, inputs: Object.keys(metafile.inputs) };
}

if (process.argv[1] !== undefined && import.meta.url === pathToFileURL(process.argv[1]).href) {
  const { html } = await buildPage();
  mkdirSync(join(HERE, 'dist'), { recursive: true });
  writeFileSync(join(HERE, 'dist/page.html'), html);
}
