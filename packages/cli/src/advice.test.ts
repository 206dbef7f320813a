import { CheckpointError, ERROR_CODES, type ErrorCode, type ErrorContext } from '@holdfast/core/contract';
import { describe, expect, it } from 'vitest';
import { adviceFor, type Situation } from './advice.ts';
import type { Subject } from './command.ts';
import { ProgressState } from './progress/progress-state.ts';
import { renderError } from './report-error.ts';
import { plainStyle } from './style.ts';

function situation(command: string, subject: Subject = {}, progress = new ProgressState()): Situation {
  return { command, subject, progress };
}

describe('adviceFor', () => {
  it('every code has something to do, except where the message already says it', () => {
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) {
      const lines = adviceFor(new CheckpointError(code, 'what'), situation('save', { uri: 'memory://a' }));
      const isSaid = code === 'InvalidArgument' || code === 'InvalidConfig';
      if (isSaid) expect(lines, code).toEqual([]);
      else expect(lines.join('').length, code).toBeGreaterThan(10);
      for (const line of lines) expect(line, code).not.toMatch(/^[A-Z].*\.$/);
    }
  });

  it('no advice names a call, a setting or an option of the library', () => {
    const names = [
      '',
      'save',
      'restore',
      'list',
      'mirror',
      'fork',
      'gc',
      'latest',
      'watch',
      'elasticdl import',
    ];
    const subjects = [{}, { uri: 's3://runs/gpt', path: 'out' }];
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[])
      for (const name of names)
        for (const subject of subjects)
          for (const line of adviceFor(new CheckpointError(code, 'what'), situation(name, subject)))
            expect(line, `${code} of "${name}"`).not.toMatch(
              /\bcall\b|setting|[a-z][A-Z]|context\.|\w\(|\w: '/,
            );
  });

  it('a run that was begun again while a command worked on the former', () => {
    const context = { store: 'memory://from', catalog: 'another-run', advice: ['open a new manager'] };
    const lines = adviceFor(new CheckpointError('Corrupt', 'x', { context }), situation('mirror'));
    expect(lines.join('\n')).toMatch(/removed and begun again.*\n.*run it again/);
  });

  it('too many open files are no fault of the store', () => {
    const cause = Object.assign(new Error('x'), { code: 'EMFILE', syscall: 'open' });
    const advice = (error: CheckpointError) => adviceFor(error, situation('save')).join('\n');
    expect(advice(new CheckpointError('Unavailable', 'x', { cause }))).toMatch(/ulimit -n.*--concurrency/);
    expect(advice(new CheckpointError('Unavailable', 'x'))).toContain('holdfast doctor');
  });

  it('a damaged grant of an election names its object', () => {
    const error = new CheckpointError('Corrupt', 'x', { context: { key: 'elections/a/1.json' } });
    const lines = adviceFor(error, situation('elect', { uri: 'memory://a' })).join('\n');
    expect(lines).toContain('elections/a/1.json');
    expect(lines).not.toContain('--on-corrupt');
  });

  it('preempt that got no answer says how to ask later, and an interrupted one that nothing was stopped', () => {
    const advice = (code: ErrorCode) =>
      adviceFor(new CheckpointError(code, 'x'), situation('preempt', { uri: 's3://runs/gpt' }));
    expect(advice('TimedOut')).toEqual([
      '`holdfast latest s3://runs/gpt` prints the newest durable version once the store answers',
    ]);
    expect(advice('Aborted')).toEqual(['no save was stopped: those in progress continue']);
  });

  it('Incomplete: the missing writers, that the files are safe, and the command that finishes', () => {
    const error = new CheckpointError('Incomplete', 'version 1200 is not complete', {
      context: {
        version: 1200n,
        missing: [
          { writer: 0, detail: 'writer 0 last uploaded 4 min ago' },
          { writer: 3, detail: 'writer 3 never joined' },
        ],
      },
    });
    expect(adviceFor(error, situation('save', { uri: 's3://runs/gpt' }))).toEqual([
      'writer 0 last uploaded 4 min ago; writer 3 never joined',
      'your files are safe in the store; `holdfast commit s3://runs/gpt --version 1200` finishes it once they have delivered',
      'a later save of this writer voids what this one delivered, unless both pass the same --life',
    ]);
    expect(adviceFor(error, situation('save', { uri: 's3://runs/gpt', hasLife: true }))).toHaveLength(2);
    expect(adviceFor(error, situation('commit', { uri: 's3://runs/gpt' }))[1]).toBe(
      '`holdfast commit s3://runs/gpt --version 1200` finishes it once they have delivered',
    );
  });

  it('Incomplete: some of very many writers are named and the rest counted', () => {
    const missing = Array.from({ length: 100 }, (_, writer) => ({
      writer,
      detail: `writer ${writer} never joined`,
    }));
    const error = new CheckpointError('Incomplete', 'x', { context: { missing } });
    expect(adviceFor(error, situation('save'))[0]).toContain('writer 7 never joined; 92 more');
  });

  it('the library names calls and settings, the command line commands and options', () => {
    const codes = Object.keys(ERROR_CODES) as ErrorCode[];
    const ofLibrary = codes.map((code) => ERROR_CODES[code].advice);
    expect(ofLibrary.filter((text) => /(?:^|[ `(])--[a-z]|`holdfast /.test(text))).toEqual([]);
    for (const code of codes) {
      const advice = adviceFor(new CheckpointError(code, 'x'), situation('doctor')).join('\n');
      const quoted = [...advice.matchAll(/`([^`]*)`/g)].map(([, text]) => text);
      expect(
        quoted.filter((text) => !/^(?:--|holdfast )/.test(text ?? '')),
        code,
      ).toEqual([]);
    }
  });

  it('a save is not told to restore another version, nor a report to replace a directory', () => {
    const about = (code: ErrorCode, name: string) =>
      adviceFor(new CheckpointError(code, 'm'), situation(name));
    expect(about('Corrupt', 'save')[0]).toBe(
      'nothing was committed: the store has lost or changed what was sent',
    );
    expect(about('TargetExists', 'report')).toEqual(['name another file']);
  });

  it('a catalog that has lost entries: what can be done before a rebuild accepts', () => {
    const error = new CheckpointError('StoreRegressed', 'm', { context: { store: 'memory://b' } });
    expect(adviceFor(error, situation('list'))).toEqual([
      'stop every process of this run and put back the entries that are missing, if there is a backup',
      'if there is none: move everything below catalog/ elsewhere, and run',
      '`holdfast fsck memory://b --rebuild-catalog --apply`',
    ]);
  });

  it('where the engine gives advice of its own, the same in commands and options', () => {
    const advice = (code: ErrorCode, context: ErrorContext) => {
      const error = new CheckpointError(code, 'x', { context: { ...context, advice: ['`aCall`'] } });
      return adviceFor(error, situation('gc', { uri: 'memory://a' }));
    };
    const store = 'memory://b';
    expect(advice('StoreRegressed', { store, catalog: 'lost' })).toEqual([
      'stop every process of this run; if the catalog cannot be restored, `holdfast fsck memory://b --rebuild-catalog` writes a new one',
    ]);
    expect(advice('Corrupt', { unreadable: ['k'] })[0]).toMatch(/^repeat the rebuild; .*`--skip KEY`/);
    expect(advice('UnsupportedFormat', { unreadable: ['k'] })[0]).toMatch(/^rebuild with a newer Holdfast/);
    expect(advice('Corrupt', { store, version: 7n, stopped: 'collection' })).toEqual([
      '`holdfast verify memory://b --version 7 --quarantine` quarantines it; collection continues if its receipts can be read',
    ]);
    expect(advice('Corrupt', { store, version: 7n, stopped: 'collection', quarantined: true })).toEqual([
      expect.stringMatching(/^version 7 is quarantined, but its receipts cannot be read either/),
    ]);
    expect(advice('Corrupt', {})).toEqual(['`aCall`']);
  });

  it('Fenced: a lone save is told what --attempt is for, another to stop', () => {
    const error = new CheckpointError('Fenced', 'x');
    expect(adviceFor(error, situation('save', { isLoneWriter: true })).join('\n')).toContain(
      'the same --attempt to all processes of one job',
    );
    expect(adviceFor(error, situation('save', { isLoneWriter: false })).join('\n')).toContain(
      'stop this job',
    );
  });

  it('Fenced: only a writer whose attempt has passed is told to stop the job', () => {
    const fenced = (
      overtakenBy: NonNullable<ErrorContext['overtakenBy']>,
      subject: Subject = {},
      command = 'save',
    ) => {
      const error = new CheckpointError('Fenced', 'x', { context: { overtakenBy, writer: 1 } });
      return adviceFor(error, situation(command, { uri: 'memory://a', ...subject })).join('\n');
    };
    expect(fenced('attempt', { isLoneWriter: false })).toMatch(/^stop this job/);
    expect(fenced('process')).toBe(
      'another process of writer 1 joined later, and only the last one can commit\n' +
        'if one trainer starts both processes, pass --life ID to each; else stop the older trainer',
    );
    expect(fenced('process', { hasLife: true })).toContain('restore and start it under a new --life');
    expect(fenced('rollback')).toMatch(
      /was rolled back: .*\nstart it again from `holdfast restore memory:\/\/a DIR`$/,
    );
    expect(fenced('rollback', { hasLife: true })).toMatch(/under a new --life$/);
    for (const command of ['commit', 'pin', 'gc', 'verify'])
      expect(fenced('attempt', {}, command)).toBe(
        'the run changed meanwhile, and this command changed nothing; run it again',
      );
  });

  it('commands for ElasticDL: what was written or committed, and no advice about restoring', () => {
    const corrupt = (command: string) =>
      adviceFor(new CheckpointError('Corrupt', 'x'), situation(command, { path: './out' })).join('\n');
    expect(corrupt('elasticdl repartition')).toMatch(/^nothing was written; /);
    expect(corrupt('elasticdl export')).toMatch(/^nothing was written; /);
    expect(corrupt('elasticdl import')).toMatch(/^that version was not committed; /);
    expect(corrupt('elasticdl inspect')).toBe('--version V takes another version, if there is one');
    const knowing = (wholeVersion: bigint | null) =>
      adviceFor(
        new CheckpointError('Corrupt', 'x', { context: { wholeVersion } }),
        situation('elasticdl import'),
      );
    const nothing = 'that version was not committed';
    expect(knowing(null)).toEqual([`${nothing}; there is no other complete version`]);
    expect(knowing(7n)).toEqual([`${nothing}; version 7 is complete: pass --version 7 to take it`]);
    const exists = new CheckpointError('TargetExists', 'x');
    expect(adviceFor(exists, situation('elasticdl export')).join('\n')).toContain('write to another place');
    const stays = new CheckpointError('TargetExists', 'x', { context: { replaceable: false } });
    for (const command of ['restore', 'resume', 'certify', 'elasticdl export'])
      expect(adviceFor(stays, situation(command)).join('\n')).not.toContain('--replace');
    const aborted = new CheckpointError('Aborted', 'x');
    const afterAbort = (command: string, subject: Subject) => adviceFor(aborted, situation(command, subject));
    expect(afterAbort('elasticdl export', { path: './out' })).toEqual(['nothing was written to ./out']);
    expect(afterAbort('elasticdl import', {})[0]).toContain('what was committed before stays');
    expect(afterAbort('elasticdl inspect', {})).toEqual(['nothing was changed']);
  });

  it('OutcomeUnknown: the command to recover with its token, and that nothing may be deleted', () => {
    const error = new CheckpointError('OutcomeUnknown', 'x', { context: { token: 'hf1-abc' } });
    const advice = adviceFor(error, situation('save', { uri: 'file:///my run' })).join('\n');
    expect(advice).toContain("`holdfast recover 'file:///my run' hf1-abc`");
    expect(advice).toContain('delete nothing');
  });

  it('OutcomeUnknown that was asked about once more: what the store said decides what to do', () => {
    const advice = (of: string, isDelivered: boolean | null, count = 1) => {
      const progress = new ProgressState();
      const writer = { index: 0, count };
      progress.apply({ type: 'joined', version: 5n, writer, epoch: 1, tookOver: false }, 0);
      const asked = { outcome: 'pending', of, isDelivered, detail: 'x', ended: 'interrupted' };
      const context = { token: 'hf1-abc', version: 5n, asked };
      const error = new CheckpointError('OutcomeUnknown', 'x', { context });
      return adviceFor(error, situation('save', { uri: 'memory://a' }, progress));
    };
    const tells = '`holdfast recover memory://a hf1-abc` prints the outcome';
    const finishes = '`holdfast commit memory://a --version 5` finishes it';
    expect(advice('commit', true)).toEqual(['your files are safe in the store', finishes, tells]);
    expect(advice('commit', null)).toEqual([finishes, tells]);
    expect(advice('commit', true, 2)[1]).toBe(`${finishes} once every writer has delivered`);
    expect(advice('commit', false)).toEqual(['save it again; delete nothing', tells]);
    expect(advice('decision', null)).toEqual(['run it again to make sure; delete nothing', tells]);
  });

  it('Aborted after some of its decisions: what stands, and not that nothing was changed', () => {
    const done = ['the pin "a" was removed from version 3'];
    const error = new CheckpointError('Aborted', 'interrupted', { context: { done } });
    expect(adviceFor(error, situation('unpin'))).toEqual([...done, 'run it again to continue']);
    expect(adviceFor(error, situation('save'))).toEqual([...done, 'nothing was saved']);
  });

  it('Corrupt on restore: the command that falls back, only when there is something to fall back to', () => {
    const error = new CheckpointError('Corrupt', 'x');
    const subject = { uri: 'memory://a', path: './d' };
    expect(adviceFor(error, situation('restore', { ...subject, alternative: 3n })).join('\n')).toContain(
      '`holdfast restore memory://a ./d --on-corrupt fallback`',
    );
    expect(adviceFor(error, situation('restore', subject)).join('\n')).not.toContain('--on-corrupt');
  });

  it('Corrupt of the newest decision: no other version helps, whatever the command', () => {
    const key = 'catalog/0000000000000007.json';
    const context = { store: 'memory://from', key, catalog: 'newest' };
    const error = new CheckpointError('Corrupt', 'x', { context });
    for (const name of ['restore', 'latest', 'fsck', 'fork', 'mirror', 'elasticdl import']) {
      const subject = { uri: 'memory://a', path: './d', alternative: 3n };
      expect(adviceFor(error, situation(name, subject)), name).toEqual([
        'the newest decision of the run cannot be read; the checkpoints themselves are not affected',
        `restore an intact copy of ${key}, if the store has versions of it, or a backup`,
        'if there is no copy: stop every process of the run, move everything below catalog/ elsewhere, and run',
        '`holdfast fsck memory://from --rebuild-catalog --apply`',
      ]);
    }
  });

  it('Corrupt where several pages are missing: all of them are to be put back', () => {
    const keys = ['pages/1.json', 'pages/2.json', 'pages/3.json'];
    const context = { store: 'memory://from', key: keys[0] as string, keys, catalog: 'newest' };
    const advice = adviceFor(new CheckpointError('Corrupt', 'x', { context }), situation('list'));
    expect(advice[1]).toBe(
      'restore an intact copy of pages/1.json, and of the 2 more that the message names, if the store has versions of it, or a backup',
    );
  });

  it('a mirror: what became of the copy, and what to do about it', () => {
    const advice = (code: ErrorCode, context = {}) =>
      adviceFor(new CheckpointError(code, 'x', { context }), situation('mirror', { uri: 'memory://to' }));
    expect(advice('Conflict').join('\n')).toContain('mirror to a new place');
    expect(advice('Fenced')).toEqual([
      'another mirror or a job now writes there; run this again to take the run over',
    ]);
    expect(advice('Aborted')).toEqual(['what was committed before stays; run it again to continue']);
    expect(advice('Corrupt', { lent: true }).join('\n')).toContain('--skip-corrupt');
    // The destination is damaged.
    expect(advice('Corrupt').join('\n')).not.toContain('--skip-corrupt');
  });

  it('Conflict: what to do depends on what was asked for', () => {
    const advice = (name: string) =>
      adviceFor(new CheckpointError('Conflict', 'x'), situation(name, { uri: 'memory://a' })).join('\n');
    expect(advice('save')).toContain('save a higher version; `holdfast latest memory://a` prints the newest');
    expect(advice('gc')).toBe(
      '`holdfast gc memory://a --explain`, with the same rules, shows which versions it would drop, and why\n--force drops them nevertheless',
    );
    expect(advice('undelete')).toContain('`holdfast list memory://a` shows which versions are retired');
    expect(advice('fsck')).toContain('`holdfast list memory://a` shows the versions in the catalog');
    expect(advice('rollback')).toBe('nothing was changed');
  });

  it('Aborted: a collection says what is left behind and that the next one goes on; before it began nothing was changed', () => {
    const advice = (subject: Subject) =>
      adviceFor(new CheckpointError('Aborted', 'interrupted'), situation('gc', subject));
    expect(advice({})).toEqual(['nothing was changed']);
    expect(advice({ isCollecting: true })).toEqual([
      '`holdfast undelete` makes the versions that it retired live again; what it removed is gone',
      'objects that belong to no version may remain: the next gc continues where this one ended',
    ]);
  });

  it('an interrupted save says what is left behind, by how far it had come', () => {
    const error = new CheckpointError('Aborted', 'interrupted');
    const subject = { uri: 'memory://a', version: 5n };
    expect(adviceFor(error, situation('save', subject))).toEqual(['nothing was sent']);
    const progress = new ProgressState();
    progress.apply(
      { type: 'planned', version: 5n, fileCount: 1, sizeBytes: 1, files: [{ name: 'a', sizeBytes: 1 }] },
      0,
    );
    expect(adviceFor(error, situation('save', subject, progress))[0]).toContain(
      'version 5 is not committed; what was sent for it',
    );
    expect(adviceFor(error, situation('restore', { path: './d' }))).toEqual(['nothing was written to ./d']);
    expect(adviceFor(error, situation('list'))).toEqual(['nothing was changed']);
  });
});

it('NotFound: a bucket that is missing is not looked for among versions', () => {
  const error = new CheckpointError('NotFound', 's3://runs names a bucket that does not exist', {
    context: { store: 's3://runs', bucket: 'missing' },
  });
  expect(adviceFor(error, situation('list', { uri: 's3://runs' }))).toEqual([
    'check the name of the bucket and the endpoint; Holdfast creates no buckets',
  ]);
});

describe('renderError', () => {
  const options = { style: plainStyle, stack: false };

  it('what, why, what to do, then code and exit status', () => {
    const error = new CheckpointError('Unavailable', 'the store did not answer', {
      cause: new Error('connect ECONNREFUSED'),
    });
    expect(renderError(error, ['try again'], options)).toBe(
      'holdfast: the store did not answer\n  because: connect ECONNREFUSED\n  try again\n  (Unavailable, exit 75)',
    );
  });

  it('a cause that the message repeats is not shown twice, and details that the advice gives stand only there', () => {
    const repeated = new CheckpointError('Unexpected', 'it broke: boom', { cause: new Error('boom') });
    expect(renderError(repeated, [], options)).toBe('holdfast: it broke: boom\n  (Unexpected, exit 1)');
    const incomplete = new CheckpointError(
      'Incomplete',
      'version 2 is not complete: writer 1 has not delivered (waited 1 s); writer 1 never joined',
    );
    expect(renderError(incomplete, ['writer 1 never joined'], options).split('\n')[0]).toBe(
      'holdfast: version 2 is not complete: writer 1 has not delivered (waited 1 s)',
    );
  });

  it('a stack only when asked for, the causes with it', () => {
    const error = new CheckpointError('Unexpected', 'outer', { cause: new Error('inner') });
    expect(renderError(error, [], options)).not.toContain('at ');
    const text = renderError(error, [], { ...options, stack: true });
    expect(text).toContain('  caused by Error: inner');
    expect(text).toContain('advice.test.ts');
  });

  it('control characters of a message do not reach the terminal', () => {
    expect(renderError(new CheckpointError('NotFound', 'no \u001b[2J'), [], options)).not.toContain('\u001b');
  });
});
