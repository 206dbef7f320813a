import type { CollectOptions, RetentionCalls, RetentionPlan, RetentionPolicy } from '@holdfast/core/contract';
import type { Call, Command, CommandResult } from '../command.ts';
import { type Ask, confirm, requirePerson } from '../confirm.ts';
import { collectText } from '../gc/collect-text.ts';
import { collectJson, planJson } from '../gc/gc-json.ts';
import { explainText, planText } from '../gc/plan-text.ts';
import { expectingRun, withRun } from '../open-run.ts';
import { takeUriFirst } from '../operands.ts';
import { flag, value } from '../option.ts';
import { type GivenRetention, givenRetention, RETENTION_OPTIONS } from '../retention-options.ts';
import { plainStyle } from '../style.ts';
import { usageError } from '../usage-error.ts';
import { watchElapsed } from '../watch-elapsed.ts';

const plan = flag('--plan', 'show what would be done, and change nothing');
const explain = flag('--explain', 'as --plan, for each version with the reasons');
const apply = flag('--apply', 'do it without asking');
const force = flag('--force', "continue although this drops more than half of the run's bytes");
const reason = value('--reason <text>', 'why, for the log of the run', (text) => text);

const OTHERWISE = 'pass --apply to do it, or --plan to see first what would be done';

export const gc: Command = {
  name: 'gc',
  group: 'Keep tidy',
  summary: 'Retire what no rule keeps, remove what was retired, delete what belongs to no version',
  description:
    'A version is kept if any rule keeps it; the latest, pinned and leased ones are kept whatever the ' +
    'rules say. Without a rule here, the rules of the run apply, which `save` sets.\n' +
    'On a terminal it shows the plan and asks. Elsewhere it needs --apply.',
  operands: 'URI',
  options: [...RETENTION_OPTIONS, plan, explain, apply, force, reason],
  examples: [
    'holdfast gc "file://$PWD/run" --plan',
    'holdfast gc "file://$PWD/run" --keep 3 --keep-every 1000 --explain',
    'holdfast gc "file://$PWD/run" --keep 3 --keep-for 30d --apply',
  ],
  run: runGc,
};

type Mode = 'plan' | 'explain' | 'apply' | 'ask';

async function runGc(call: Call): Promise<CommandResult> {
  const { uri } = takeUriFirst(call.command, call.operands, call.env);
  const given = givenRetention(call);
  const mode = modeOf(call);
  const ask = mode === 'ask' ? requirePerson(call, OTHERWISE) : null;
  const isPatient = mode === 'apply' || mode === 'ask';
  return withRun(call, { uri, isPatient }, (manager) =>
    expectingRun(call, manager, async () => {
      const policy = await policyOf(manager.admin, given, call);
      const options: CollectOptions = { policy, reason: call.get(reason), signal: call.signal };
      const planned = await manager.admin.planRetention(options);
      return isPatient ? collect(call, manager.admin, { planned, ask, options }) : tell(call, planned, mode);
    }),
  );
}

/** The command line overrides the environment. */
function modeOf(call: Call): Mode {
  const modes = [
    { option: plan, mode: 'plan' },
    { option: explain, mode: 'explain' },
    { option: apply, mode: 'apply' },
  ] as const;
  const given = modes.filter(({ option }) => call.get(option) === true);
  const onLine = given.filter(({ option }) => call.sourced(option)?.source === `--${option.name}`);
  const [first, second] = onLine.length > 0 ? onLine : given;
  if (second !== undefined && first !== undefined) {
    throw usageError(`--${first.mode} and --${second.mode} cannot be combined`, [
      'choose one of --plan, --explain and --apply',
    ]);
  }
  return first?.mode ?? 'ask';
}

/** `undefined`: the rules of the run. A grace without rules is combined with them. */
async function policyOf(
  admin: RetentionCalls,
  given: GivenRetention,
  { signal }: Call,
): Promise<RetentionPolicy | undefined> {
  const { graceMs } = given;
  if (given.rules !== undefined || graceMs === undefined) return given.rules;
  return { ...(await admin.retention({ signal })), graceMs };
}

function tell(call: Call, planned: RetentionPlan, mode: Mode): CommandResult {
  const text = mode === 'explain' ? explainText : planText;
  return {
    text: text(planned, call.style),
    json: { uri: call.subject.uri ?? null, plan: planJson(planned) },
  };
}

async function collect(
  call: Call,
  admin: RetentionCalls,
  { planned, ask, options }: { planned: RetentionPlan; ask: Ask | null; options: CollectOptions },
): Promise<CommandResult> {
  const isForced = call.get(force) === true;
  const shown = planText(isForced ? { ...planned, needsForce: false } : planned, plainStyle);
  // `collect` rejects a plan that needs --force, so there is nothing to ask.
  if (ask === null || (planned.needsForce && !isForced)) call.messages.note(shown);
  else {
    call.messages.warn(shown);
    await confirm(ask, 'do it?', call.signal);
  }
  await watchElapsed(call, 'collecting');
  call.subject.isCollecting = true;
  const result = await admin.collect({ ...options, force: isForced, onProgress: call.reporter.onProgress });
  return {
    text: collectText(result, call.style),
    json: { uri: call.subject.uri ?? null, ...collectJson(result) },
  };
}
