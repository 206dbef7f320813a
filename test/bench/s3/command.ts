/**
 * `bench s3` and `bench client`: compare S3 clients on MinIO or an endpoint, and on a server that
 * discards everything.
 */

import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
// @boundaries-ignore it measures the build, as the tests make it
import { BUILD, runStep } from '../../../scripts/steps.ts';
import { testConfig } from '../../servers/config.ts';
import { MINIO } from '../../servers/go-program.ts';
import { chosen, positive, say } from '../options.ts';
import { machineText } from '../results.ts';
import { assertRoom } from '../room.ts';
import { installPeers } from './install.ts';
import { type InstalledPeer, PEERS, type Places, placesIn } from './peers.ts';
import { chartOf, markdownOf, type Report } from './report.ts';
import { DESTINATIONS, type Destination, type Failure, type Run, runSeries } from './rounds.ts';
import { makePattern, parseShape, type Shape, scaleShape, totalBytes, writeFiles } from './shapes.ts';
import { discardTarget, endpointTarget, minioTarget, type Target } from './targets.ts';

/** Defaults of a series, which options override. */
export interface Defaults {
  readonly name: 's3' | 'client';
  readonly shapes: string;
  readonly peers: string;
  readonly destinations: string;
  /** Use the server that discards everything. */
  readonly discards: boolean;
}

export const S3_SERIES: Defaults = {
  name: 's3',
  shapes: '1x1GiB,16x64MiB,10000x1KiB',
  peers: PEERS.filter(({ isSketch }) => !isSketch)
    .map(({ name }) => name)
    .join(),
  destinations: 'disk,tmpfs',
  discards: false,
};

export const CLIENT_SERIES: Defaults = {
  name: 'client',
  shapes: '1x4GiB',
  peers: 'opendal,obstore,awscrt,s5cmd,holdfast,bare',
  destinations: 'nowhere,disk,tmpfs',
  discards: true,
};

interface Options {
  readonly rounds: number;
  readonly shapes: readonly Shape[];
  readonly peers: readonly string[];
  readonly destinations: readonly Destination[];
  readonly directory: string;
  readonly out: string | undefined;
  readonly endpoint: string | undefined;
  readonly tls: boolean;
  readonly fromSources: boolean;
  readonly installsPeers: boolean;
}

function parseOptions(args: readonly string[], defaults: Defaults): Options {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string', default: '5' },
      shapes: { type: 'string', default: defaults.shapes },
      'sizes-scale': { type: 'string', default: '1' },
      peers: { type: 'string', default: defaults.peers },
      to: { type: 'string', default: defaults.destinations },
      dir: { type: 'string', default: tmpdir() },
      out: { type: 'string' },
      endpoint: { type: 'string' },
      tls: { type: 'boolean', default: false },
      'from-sources': { type: 'boolean', default: false },
      'install-peers': { type: 'boolean', default: false },
    },
  });
  const scale = positive('--sizes-scale', values['sizes-scale']);
  const rounds = positive('--rounds', values.rounds);
  return {
    rounds: Math.ceil(rounds),
    shapes: values.shapes.split(',').map((text) => scaleShape(parseShape(text), scale)),
    peers: chosen(
      '--peers',
      values.peers,
      PEERS.map(({ name }) => name),
    ),
    destinations: chosen('--to', values.to, DESTINATIONS),
    directory: values.dir,
    out: values.out,
    endpoint: values.endpoint,
    tls: values.endpoint?.startsWith('https:') ?? values.tls,
    fromSources: values['from-sources'],
    installsPeers: values['install-peers'],
  };
}

/** The installed peers that this server understands. For each other one it prints why. */
function findPeers({ peers: names, tls, endpoint }: Options, defaults: Defaults, places: Places) {
  const takesSketches = defaults.discards && endpoint === undefined && !tls;
  return PEERS.filter(({ name }) => names.includes(name)).flatMap((peer): InstalledPeer[] => {
    if (peer.isSketch && !takesSketches) {
      say(`${peer.name} is left out: it knows only the discarding server, over plain HTTP`);
      return [];
    }
    const found = peer.find(places);
    if (found === undefined) say(`${peer.name} is not installed and is left out: ${peer.install}`);
    return found === undefined ? [] : [{ ...peer, ...found }];
  });
}

/**
 * Prints a table and writes `NAME-http(s).json`, `.md` and a chart for each shape. Resolves to
 * false if a run failed.
 */
export async function benchS3(args: readonly string[], defaults: Defaults): Promise<boolean> {
  const options = parseOptions(args, defaults);
  const places = placesIn(testConfig(process.env).cacheDirectory, options.fromSources);
  if (options.installsPeers) installPeers(places);
  // Measure the compiled command that users get, because type stripping costs time.
  if (!options.fromSources && !runStep(BUILD)) throw new Error('the build failed; its own words are above');
  const peers = findPeers(options, defaults, places);
  if (peers.length === 0) throw new Error('none of these clients is installed');
  const directory = mkdtempSync(join(options.directory, 'holdfast-bench-'));
  const memoryDirectory = options.destinations.includes('tmpfs')
    ? mkdtempSync('/dev/shm/holdfast-bench-')
    : directory;
  const remove = () => {
    rmSync(directory, { recursive: true, force: true });
    rmSync(memoryDirectory, { recursive: true, force: true });
  };
  process.on('exit', remove);
  try {
    const { runs, failures } = await measureAll(options, defaults, { peers, directory, memoryDirectory });
    const report: Report = {
      title: `${serverName(options, defaults)}, ${options.tls ? 'TLS' : 'plain HTTP'}`,
      conditions: conditionsOf(options, defaults, peers),
      shapes: options.shapes,
      runs,
      failures,
      checksums: Object.fromEntries(peers.map(({ name, checksum }) => [name, checksum])),
    };
    writeReport(report, options, `${defaults.name}-${options.tls ? 'https' : 'http'}`);
    return failures.length === 0;
  } finally {
    remove();
    process.off('exit', remove);
  }
}

interface Workplace {
  readonly peers: readonly InstalledPeer[];
  readonly directory: string;
  readonly memoryDirectory: string;
}

async function measureAll(
  options: Options,
  defaults: Defaults,
  { peers, directory, memoryDirectory }: Workplace,
): Promise<{ runs: Run[]; failures: Failure[] }> {
  const pattern = makePattern();
  const patternPath = join(directory, 'pattern');
  writeFileSync(patternPath, pattern);
  const target = await openTarget(options, defaults, { directory, patternPath });
  say(`${target.name} at ${target.access.endpoint}, bucket ${target.bucket}`);
  const results = { runs: [] as Run[], failures: [] as Failure[] };
  try {
    for (const shape of options.shapes) {
      assertRoom(shape.name, directory, 4 * totalBytes(shape));
      if (options.destinations.includes('tmpfs'))
        assertRoom(shape.name, memoryDirectory, 2 * totalBytes(shape));
      const source = join(directory, `source-${shape.name}`);
      writeFiles(source, shape, pattern);
      const { rounds, destinations } = options;
      const series = { target, peers, shape, source, destinations, rounds, directory, memoryDirectory, say };
      const { runs, failures } = await runSeries(series);
      results.runs.push(...runs);
      results.failures.push(...failures);
      rmSync(source, { recursive: true });
    }
  } finally {
    await target.close();
  }
  return results;
}

function openTarget(
  { endpoint, tls }: Options,
  { discards }: Defaults,
  { directory, patternPath }: { directory: string; patternPath: string },
): Promise<Target> {
  if (endpoint !== undefined) return endpointTarget(endpoint, process.env);
  return discards ? discardTarget({ directory, tls }, patternPath) : minioTarget({ directory, tls });
}

function serverName({ endpoint }: Options, { discards }: Defaults): string {
  if (endpoint !== undefined) return new URL(endpoint).host;
  return discards ? 'discarding server' : 'MinIO';
}

function conditionsOf(options: Options, defaults: Defaults, peers: readonly InstalledPeer[]): string {
  const version = options.endpoint === undefined && !defaults.discards ? ` ${MINIO.version}` : '';
  return [
    machineText(),
    `${serverName(options, defaults)}${version}${options.endpoint === undefined ? ', same machine' : ''}`,
    `${options.rounds} rounds, median [min–max]`,
    peers.map(({ name, version }) => `${name} ${version}`).join(', '),
  ].join('; ');
}

function writeReport(report: Report, { out }: Options, name: string): void {
  const directory = out ?? mkdtempSync(join(tmpdir(), 'holdfast-bench-results-'));
  mkdirSync(directory, { recursive: true });
  const chartName = (shape: Shape) => `${name}-${shape.name}.svg`;
  const markdown = markdownOf(report, chartName);
  const json = { ...report, takenAt: new Date().toISOString() };
  writeFileSync(join(directory, `${name}.json`), `${JSON.stringify(json, null, 1)}\n`);
  writeFileSync(join(directory, `${name}.md`), markdown);
  for (const shape of report.shapes) writeFileSync(join(directory, chartName(shape)), chartOf(report, shape));
  process.stdout.write(`${markdown}\n`);
  say(`written to ${directory}`);
}
