/**
 * `npm run bench [-- SERIES] [options]`: measures saves and restores, beside the machine's own
 * speed and other clients. Prints tables for docs/performance.md. Nothing here is a test. Numbers
 * of a busy machine are noise, so compare ratios of one run.
 */

// @boundaries-ignore packing compiles the native code
import { tryNativeCode } from '../../scripts/pack/native-code.ts';
import { ROOT } from '../artifacts/artifacts.ts';
import { benchAdapters } from './adapters/command.ts';
import { benchAgent } from './agent.ts';
import { benchAsync } from './async.ts';
import { benchCollect } from './collect.ts';
import { benchCrc32c } from './crc32c.ts';
import { benchCrowd } from './crowd.ts';
import { benchFleet } from './fleet.ts';
import { benchLocal } from './local-command.ts';
import { benchMirror } from './mirror.ts';
import { benchRecords } from './records.ts';
import { benchReferences } from './references.ts';
import { benchInspect, benchRepartition } from './repartition.ts';
import { benchResume } from './resume.ts';
import { benchRetention } from './retention.ts';
import { benchS3, CLIENT_SERIES, S3_SERIES } from './s3/command.ts';
import { benchScale } from './scale.ts';
import { benchSizes } from './sizes.ts';
import { benchStart } from './start.ts';
import { benchTensors } from './tensors.ts';
import { benchTorch } from './torch.ts';
import { benchUi } from './ui.ts';
import { benchVerify } from './verify.ts';
import { benchWorkers } from './workers.ts';

const USAGE = `npm run bench                     all of these in turn
npm run bench -- local            the local store against dd and cp
npm run bench -- s3               Holdfast and other clients of S3, on MinIO
npm run bench -- client           the client's own cost: 4 GiB against a server that throws them away, beside a bare sketch
npm run bench -- workers          saves of 4 GiB with transfer workers and without: speed, and the main thread's share
npm run bench -- sizes            saves and restores by size (to 64 GiB), number of files, workers, requests in flight, versions and writers: requests, time, CPU, memory
npm run bench -- adapters         each cloud's adapter against such a server, beside node:http and the provider's SDK
npm run bench -- mirror           from the local disk to MinIO, and from there to Azurite, beside plain saves
npm run bench -- crc32c           the native code for CRC32C beside that of packages
npm run bench -- records          the worst records that there can be: how long until they are read or refused
npm run bench -- references       what looking for unchanged files costs a save, and what it spares
npm run bench -- retention        a plan of retention for 10,000 versions
npm run bench -- resume           what is sent again after a kill at 60 % of a file, in each store
npm run bench -- verify           level 0 of a checkpoint of 1,000 files on MinIO: time and requests
npm run bench -- collect          10,000 objects that nothing refers to, deleted from MinIO
npm run bench -- fleet            10,000 runs on MinIO, found and summarised: time, requests, memory
npm run bench -- repartition      a checkpoint of ElasticDL's from 4 shards to 3, beside plain streams of the same bytes
npm run bench -- inspect          the structure of a large shard of ElasticDL's
npm run bench -- tensors          the tensors of 100 GiB, and exports of 10 GiB in both layouts: time and memory
npm run bench -- async            how long a step is held up by a save beside the training, beside a plain copy
npm run bench -- agent            trainers in Python that save and load by the agent, beside other clients, on MinIO
npm run bench -- torch            two ranks of PyTorch save and load by DCP, beside other tools, on MinIO
npm run bench -- scale            requests and bytes of one commit: 1 to 100,000 versions, 1 to 1,000,000 files
npm run bench -- crowd            10,000 writers below one prefix of S3, on paper: time, refused requests, connections
npm run bench -- ui               the page of 10,000 versions in Chromium, and the server's memory with 1,000 runs
npm run bench -- start            the command line: its start, and opening a run in each store

all of them:
  --rounds N          repetitions, in turn (5; retention, start, inspect: 21)
  --out DIR           where to write the raw JSON, and but for local the Markdown and charts (a new directory)
all but local:
  --from-sources      measure the sources as they are, without a build
local, s3, client, workers, sizes, mirror, references, resume, repartition, inspect, tensors, torch, async:
  --dir DIR           the disk to measure (the directory for temporary files)
s3, client, mirror:
  --shapes A,B        COUNTxSIZE, as in 16x64MiB
s3, client, mirror, sizes:
  --sizes-scale X     smaller files, or fewer of the small ones, for trying it out
s3, client:
  --peers A,B         only these
  --to A,B            where downloads go: disk, tmpfs, nowhere (verified and dropped; Holdfast only);
                      one: only one file of the shape, to the disk
  --tls               with a certificate of our own
  --endpoint URL      a server of yours, with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, AWS_CA_BUNDLE
  --install-peers     install peers from PyPI and npm into the cache first (agent too, from PyPI; crc32c, from npm)
agent:
  --size A            of the state of each trainer, as in 64MiB (512MiB)
  --trainers N        how many (2)
  --peers A,B         only these: holdfast, obstore, boto3, s3fs
sizes:
  --kinds A,B         only these: size, files, workers, concurrency, versions, writers
workers:
  --workers A,B       how many (0,1,2)
  --size A            of each of the 16 files, as in 16MiB (256MiB)
resume:
  --size A            of the file, as in 64MiB (1GiB)
  --stores A,B        only these: local, MinIO, fake-gcs, Azurite
repartition, inspect:
  --size A            of all rows, of the shard, as in 256MiB (4GiB, 2GiB)
torch:
  --size A            of all tensors together, as in 64MiB (512MiB)
tensors:
  --size A            of the checkpoint that is inspected (100GiB)
  --export-size A     of the one that is exported (10GiB)
async:
  --size A            of each of the 16 buffers, as in 1MiB (64MiB)
  --staging DIR       one more row: copied to there, as to /dev/shm
fleet:
  --runs N            how many (10000)
scale:
  --versions N        at most (100000)
  --files N           at most, a thousand for each writer (1000000)
  --writers N         at most, a file each (2000)
  --lone-files N      of one writer (100000)
  --stores A,B        only these: local, MinIO; none if empty
  --stored-files N    in each of those (100000)
  --dir DIR           for those (the directory for temporary files)
crowd:
  --writers A,B       how many (1000,10000)
  --size A            of each, as in 16MiB (1GiB)
repartition:
  --buffer A          memory that may be used (256MiB)
adapters:
  --sizes A,B         of the object, as in 64MiB (1GiB)
  --adapters A,B      only these: s3, gcs, azure
`;

const SERIES: Readonly<Record<string, (args: readonly string[]) => Promise<unknown>>> = {
  local: benchLocal,
  agent: benchAgent,
  s3: (args) => benchS3(args, S3_SERIES),
  client: (args) => benchS3(args, CLIENT_SERIES),
  workers: benchWorkers,
  sizes: benchSizes,
  adapters: benchAdapters,
  mirror: benchMirror,
  collect: benchCollect,
  fleet: benchFleet,
  crc32c: benchCrc32c,
  records: benchRecords,
  references: benchReferences,
  retention: benchRetention,
  resume: benchResume,
  verify: benchVerify,
  repartition: benchRepartition,
  inspect: benchInspect,
  tensors: benchTensors,
  torch: benchTorch,
  async: benchAsync,
  scale: benchScale,
  crowd: benchCrowd,
  start: benchStart,
  ui: benchUi,
};

// Exit through 'exit', whose handlers end running programs and remove directories.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => process.exit(130));

/** Options without a series apply to all series. */
function chosenSeries(words: readonly string[]): { names: readonly string[]; options: readonly string[] } {
  const [first = ''] = words;
  if (first === '' || first.startsWith('-')) return { names: Object.keys(SERIES), options: words };
  return { names: [first], options: words.slice(1) };
}

async function main(words: readonly string[]): Promise<void> {
  if (words.includes('--help')) return void process.stdout.write(USAGE);
  const { names, options } = chosenSeries(words);
  await tryNativeCode(ROOT);
  for (const name of names) {
    const run = SERIES[name];
    if (run === undefined) throw new Error(`"${name}" is no benchmark\n\n${USAGE}`);
    if ((await run(options)) === false) process.exitCode = 1;
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  process.stderr.write(`bench: ${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
