/** A secret anywhere in a URI is rejected by every command and repeated by none. */

import { inspect } from 'node:util';
import { COMMANDS } from '@holdfast/cli/internal/commands';
import { openStore } from '@holdfast/stores';
import { describe, expect, test } from 'vitest';
import { holdfast, LOUD_MODES, loggedForms } from './in-process.ts';
import { Marks } from './marks.ts';

const marks = new Marks();

/** URIs that each contain a secret in a different place. */
const URIS: readonly string[] = ['s3', 'gs', 'az', 'file', 'memory', 'https', 'postgres'].flatMap(
  (scheme) => {
    const place = scheme === 'az' ? 'account/container' : scheme === 'file' ? '/nowhere' : 'bucket';
    const mark = (what: string) => marks.make(`${scheme} ${what}`);
    return [
      `${scheme}://user:${mark('password')}@${place}/run`,
      `${scheme}://${mark('user')}:x@${place}/run`,
      `${scheme}://user:a/${mark('password after a slash')}@${place}/run`,
      `${scheme}://user:${mark('password before a slash')}/b@${place}/run`,
      `${scheme}://user:${mark('password before a query')}?b@${place}/run`,
      `${scheme}:user:${mark('no slashes')}@${place}/run`,
      `${scheme}:/user:${mark('one slash')}@${place}/run`,
      `${scheme}://${place}/run?${mark('name of a setting')}`,
      `${scheme}://${place}/run?${mark('setting')}=1`,
      `${scheme}://${place}/run?sig=${mark('signature')}`,
      `${scheme}://${place}/run?sv=2024-11-04&sp=rl&sig=${mark('sas')}%3D`,
      `${scheme}://${place}/run?region=${mark('region')}!`,
      `${scheme}://${place}/run?auth=${mark('auth')}`,
      `${scheme}://${place}/run?direct=${mark('direct')}`,
      `${scheme}://${place}/run?endpoint=http://user:${mark('password of endpoint')}@127.0.0.1:9`,
      `${scheme}://${place}/run?endpoint=http://:${mark('password alone')}@127.0.0.1:9`,
      `${scheme}://${place}/run?endpoint=http://user:1/${mark('password in path')}@127.0.0.1`,
      `${scheme}://${place}/run?endpoint=user:${mark('endpoint without scheme')}@127.0.0.1`,
      `${scheme}://${place}/run?endpoint=${encodeURIComponent(`http://127.0.0.1/?sig=${mark('sig of endpoint')}`)}`,
      `${scheme}://${place}/run?endpoint=${encodeURIComponent(`http://127.0.0.1/#${mark('hash of endpoint')}`)}`,
      `${scheme}://${place}/run#${mark('fragment')}`,
      `${scheme}://${place}/run?region=%zz${mark('bad percent')}`,
    ];
  },
);

const NO_URIS: readonly string[] = [
  marks.make('nothing else'),
  `user:${marks.make('no scheme')}@bucket/run`,
  `DefaultEndpointsProtocol=https;AccountName=a;AccountKey=${marks.make('connection string')}==`,
  `bucket/${marks.make('relative')}`,
];

const IN_PLACE_OF_PATHS: readonly ((uri: string) => readonly string[])[] = [
  (uri) => ['save', uri, 'memory://other'],
  (uri) => ['save', '.', uri, uri],
  (uri) => ['restore', 'memory://other', uri],
  (uri) => ['watch', uri, 'memory://other', '--complete-when', 'rename', '--once'],
  (uri) => ['watch', '.', uri, '.', uri, '--complete-when', 'rename', '--once'],
  (uri) => ['watch', uri],
  (uri) => ['report', 'memory://other', '--out', uri],
  (uri) => ['certify', 'memory://other', '--output', uri],
  (uri) => ['runs', 'memory://other', '--prices', uri],
  (uri) => ['ui', 'memory://other', '--tls', uri, '--token-file', uri],
  (uri) => ['ui', '--agent', uri],
  (uri) => ['list', 'memory://other', '--store-module', uri],
  (uri) => ['completion', uri],
  (uri) => ['agent', uri],
  ...['--socket', '--stage', '--config'].map((name) => (uri: string) => ['agent', name, uri]),
];

/** All commands that take a URI, with the URI in each of its positions and the other arguments. */
const CALLS: readonly ((uri: string) => readonly string[])[] = [
  ...[
    'commit',
    'preempt',
    'latest',
    'list',
    'show',
    'log',
    'gc',
    'fsck',
    'verify',
    'doctor',
    'certify',
    'lease',
    'inspect',
    'locate',
    'runs',
    'exporter',
    'ui',
  ].map((name) => (uri: string) => [name, uri]),
  ...['pin', 'unpin', 'undelete'].map((name) => (uri: string) => [
    name,
    uri,
    '--version',
    '1',
    '--label',
    'x',
  ]),
  (uri) => ['annotate', uri, '--version', '1', '--metric', 'auc=1'],
  (uri) => ['elect', uri, '--id', 't0', '--for', '1m'],
  (uri) => ['resume', uri, './nowhere'],
  (uri) => ['export', uri, './nowhere'],
  (uri) => ['report', uri, '--out', './nowhere.html'],
  (uri) => ['runs', 'memory://other', uri],
  (uri) => ['exporter', 'memory://other', uri],
  (uri) => ['rollback', uri, '--to', '1', '--reason', 'x'],
  (uri) => ['save', '.', uri],
  (uri) => ['restore', uri, './nowhere'],
  (uri) => ['diff', uri, '1', '2'],
  (uri) => ['recover', uri, 'hf1-x'],
  (uri) => ['recover', 'memory://other', uri],
  (uri) => ['mirror', uri, 'memory://other'],
  (uri) => ['mirror', 'memory://other', uri],
  (uri) => ['fork', uri, 'memory://other'],
  (uri) => ['fork', 'memory://other', uri],
  (uri) => ['elasticdl', 'inspect', uri],
  (uri) => ['elasticdl', 'best', uri, '--metric', 'auc'],
  (uri) => ['elasticdl', 'repartition', uri, './nowhere', '--to', '2'],
  (uri) => ['elasticdl', 'export', uri, './nowhere.safetensors'],
  (uri) => ['elasticdl', 'import', uri, 'memory://other'],
  (uri) => ['list', uri, uri, uri],
  (uri) => ['list', 'memory://other', `--${uri}`],
  (uri) => ['list', 'memory://other', `--unknown=${uri}`],
  (uri) => ['list', `-x${uri}`],
  (uri) => [uri],
  (uri) => ['elasticdl', uri],
  (uri) => [uri, 'list'],
  ...IN_PLACE_OF_PATHS,
];

describe('a secret in a URI', () => {
  test('is passed to every command that takes arguments', () => {
    const lines = CALLS.map((call) => `${call('URI').join(' ')} `);
    const missing = COMMANDS.filter(({ name }) => !lines.some((line) => line.startsWith(`${name} `)));
    expect(missing.map(({ name }) => name)).toEqual(['version']);
  });

  test('is repeated by no command, as it speaks to people and to programs', async () => {
    const told: string[] = [];
    for (const [index, call] of CALLS.entries()) {
      // Each place is tried with some commands, and each command with some places of two schemes.
      // All commands treat a URI in the same way.
      const some = [
        ...URIS.filter((_, at) => (at + index) % 14 === 0),
        ...NO_URIS.slice(index % 4, (index % 4) + 1),
      ];
      // If a path is allowed, an argument without `://` is a path, and a path is not a secret.
      for (const uri of some.filter((each) => each.includes('://') || !IN_PLACE_OF_PATHS.includes(call))) {
        for (const mode of LOUD_MODES) {
          const { code, text } = await holdfast([...call(uri), ...mode], {});
          if (code === 0) told.push(`${call('URI').join(' ')} took ${uri}`);
          told.push(...marks.foundIn(text).map((found) => `${call('URI').join(' ')} ${mode}: ${found}`));
        }
      }
    }
    expect(told).toEqual([]);
  }, 120_000);

  test('is refused by every store, and in no error of the library, whatever is printed of it', async () => {
    for (const uri of [...URIS, ...NO_URIS]) {
      const error = await openStore(uri).then(
        (store) => `${store.uri} was opened`,
        (thrown: unknown) => thrown,
      );
      expect(error, uri).toMatchObject({ code: 'InvalidConfig' });
      const shown = loggedForms(error, (value) => inspect(value, { depth: Infinity, showHidden: true }));
      expect(marks.foundIn(shown)).toEqual([]);
    }
  });

  test('nor where HOLDFAST_URI has it', async () => {
    for (const uri of [...URIS, ...NO_URIS]) {
      const { code, text } = await holdfast(['save', '.', '--verbose'], { HOLDFAST_URI: uri });
      expect([code, ...marks.foundIn(text)], uri).toEqual([2]);
    }
  });

  test('a mark that is told is found: as it is, in pieces and in other forms', async () => {
    const [secret] = NO_URIS as [string];
    const bytes = Buffer.from(`user:${secret}`);
    const forms = [secret, secret.slice(5, 13), bytes.toString('base64'), bytes.toString('hex')];
    for (const form of forms) expect(marks.foundIn(`so ${form} be it`)).toHaveLength(1);
    expect(marks.foundIn('nothing of the kind is in here')).toEqual([]);
  });
});
