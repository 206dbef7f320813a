import type { Command } from '../command.ts';
import { certify } from './certify.ts';
import { commit } from './commit.ts';
import { completionCommand } from './completion.ts';
import { doctor } from './doctor.ts';
import { latest } from './latest.ts';
import { list } from './list.ts';
import { log } from './log.ts';
import { mirror } from './mirror.ts';
import { recover } from './recover.ts';
import { restore } from './restore.ts';
import { save } from './save.ts';
import { show } from './show.ts';
import { verify } from './verify.ts';

/** All commands, in the order in which they are listed. */
export const COMMANDS: readonly Command[] = [
  save,
  commit,
  restore,
  mirror,
  latest,
  list,
  show,
  log,
  verify,
  recover,
  doctor,
  certify,
  completionCommand(() => COMMANDS),
];
