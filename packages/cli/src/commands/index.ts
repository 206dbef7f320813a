import type { Command } from '../command.ts';
import { agent } from './agent.ts';
import { annotate } from './annotate.ts';
import { certify } from './certify.ts';
import { commit } from './commit.ts';
import { completionCommand } from './completion.ts';
import { diff } from './diff.ts';
import { doctor } from './doctor.ts';
import { elasticdlBest } from './elasticdl-best.ts';
import { elasticdlExport } from './elasticdl-export.ts';
import { elasticdlImport } from './elasticdl-import.ts';
import { elasticdlInspect } from './elasticdl-inspect.ts';
import { elasticdlRepartition } from './elasticdl-repartition.ts';
import { elect } from './elect.ts';
import { exportCommand } from './export.ts';
import { exporter } from './exporter.ts';
import { fork } from './fork.ts';
import { fsck } from './fsck.ts';
import { gc } from './gc.ts';
import { inspect } from './inspect.ts';
import { latest } from './latest.ts';
import { lease } from './lease.ts';
import { list } from './list.ts';
import { locate } from './locate.ts';
import { log } from './log.ts';
import { mirror } from './mirror.ts';
import { pin } from './pin.ts';
import { preempt } from './preempt.ts';
import { recover } from './recover.ts';
import { report } from './report.ts';
import { restore } from './restore.ts';
import { resume } from './resume.ts';
import { rollback } from './rollback.ts';
import { runs } from './runs.ts';
import { save } from './save.ts';
import { show } from './show.ts';
import { ui } from './ui.ts';
import { undelete } from './undelete.ts';
import { unpin } from './unpin.ts';
import { verify } from './verify.ts';
import { versionCommand } from './version.ts';
import { watch } from './watch.ts';

/** All commands, in the order of their listing. */
export const COMMANDS: readonly Command[] = [
  save,
  commit,
  annotate,
  preempt,
  elect,
  agent,
  watch,
  restore,
  resume,
  exportCommand,
  mirror,
  runs,
  exporter,
  latest,
  list,
  show,
  inspect,
  locate,
  log,
  diff,
  ui,
  report,
  gc,
  pin,
  unpin,
  undelete,
  lease,
  rollback,
  fork,
  fsck,
  verify,
  recover,
  doctor,
  certify,
  elasticdlInspect,
  elasticdlRepartition,
  elasticdlExport,
  elasticdlImport,
  elasticdlBest,
  completionCommand(() => COMMANDS),
  versionCommand,
];
