import type { Clock, ProgressEvent } from '@holdfast/core/contract';
import stringWidth from 'fast-string-width';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Pace, ProgressState } from './progress-state.ts';
import { renderBar, renderBars } from './render-bars.ts';
import { renderLine } from './render-line.ts';
import { createReporter, type ProgressMode } from './reporter.ts';

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const SCREEN = { columns: 120, rows: 30 };

const planned = (...files: [string, number][]): ProgressEvent => ({
  type: 'planned',
  version: 1200n,
  fileCount: files.length,
  sizeBytes: files.reduce((sum, [, size]) => sum + size, 0),
  files: files.map(([name, sizeBytes]) => ({ name, sizeBytes })),
});
const bytes = (name: string, doneBytes: number, totalBytes: number): ProgressEvent => ({
  type: 'bytes',
  name,
  doneBytes,
  totalBytes,
});
const joined: ProgressEvent = {
  type: 'joined',
  version: 1200n,
  writer: { index: 2, count: 4 },
  epoch: 3,
  tookOver: false,
};

function stateAfter(...events: [number, ProgressEvent][]): ProgressState {
  const state = new ProgressState();
  for (const [atMs, event] of events) state.apply(event, atMs);
  return state;
}

describe('renderBar', () => {
  it.each([
    [0, '    '],
    [1, '████'],
    [0.5, '██  '],
    [0.03125, '▏   '],
    [0.6, '██▍ '],
    [7, '████'],
    [-1, '    '],
  ])('%d', (fraction, bar) => {
    expect(renderBar(fraction, 4)).toBe(bar);
  });
});

describe('renderBars', () => {
  const state = stateAfter(
    [0, joined],
    [0, planned(['model.safetensors', 4 * GIB], ['optimizer.pt', 8 * GIB])],
    [1000, bytes('model.safetensors', GIB, 4 * GIB)],
    [2000, bytes('optimizer.pt', GIB, 8 * GIB)],
    [5000, bytes('model.safetensors', 3.1 * GIB, 4 * GIB)],
  );

  it('shows each file with bar, share, pace and time left, and the whole', () => {
    const lines = renderBars(state, 'saved', 5000, SCREEN);
    expect(lines).toHaveLength(3);
    expect(lines[0]).toMatch(
      /^ {2}model\.safetensors {3}█+.? +3\.1 of 4\.0 GiB {4,}\d+ MiB\/s {3}\d s left$/,
    );
    expect(lines[1]).toMatch(/^ {2}optimizer\.pt {8}█+.? +1\.0 of 8\.0 GiB/);
    expect(lines[2]).toMatch(/^ {2}saved 4\.1 of 12\.0 GiB · 0 of 2 files · .* MiB\/s · .* left$/);
  });

  it('no line is wider than the screen', () => {
    for (const columns of [20, 40, 60, 80, 100]) {
      for (const line of renderBars(state, 'saved', 5000, { columns, rows: 30 }))
        expect(stringWidth(line)).toBeLessThan(columns);
    }
  });

  it('a file that is done says so', () => {
    const done = stateAfter([0, planned(['a', 10], ['b', 10])], [1, bytes('a', 10, 10)]);
    expect(renderBars(done, 'saved', 10, SCREEN)[0]).toMatch(/10 of 10 B {3}done$/);
    expect(renderBars(done, 'saved', 10, SCREEN)[2]).toContain('1 of 2 files');
  });

  it('among very many files only those in progress are shown', () => {
    const names = Array.from({ length: 1000 }, (_, index): [string, number] => [`part-${index}`, MIB]);
    const many = stateAfter(
      [0, planned(...names)],
      [1, bytes('part-0', MIB, MIB)],
      [2, bytes('part-7', 10, MIB)],
    );
    const lines = renderBars(many, 'saved', 1000, SCREEN);
    expect(lines).toHaveLength(2);
    expect(lines[0]).toContain('part-7');
    expect(lines[1]).toContain('1 of 1,000 files');
  });

  it('a name from the store cannot move the cursor', () => {
    const evil = stateAfter([0, planned(['a\u001b[2J', 10])], [1, bytes('a\u001b[2J', 5, 10)]);
    expect(renderBars(evil, 'restored', 10, SCREEN).join('')).not.toContain('\u001b');
  });

  it('waiting names the writers that are missing and how long', () => {
    const waiting = stateAfter(
      [0, joined],
      [0, planned(['a', 1])],
      [1, { type: 'waiting', version: 1200n, missingWriters: [0, 3], waitedMs: 12_000 }],
    );
    expect(renderBars(waiting, 'saved', 5, SCREEN)).toEqual(['  waiting for writers 0 and 3 of 4   12 s']);
  });

  it('nothing is shown before the plan and after the commit', () => {
    expect(renderBars(stateAfter([0, joined]), 'saved', 0, SCREEN)).toEqual([]);
    const id = { lineage: 0, epoch: 3, version: 1200n };
    expect(
      renderBars(stateAfter([0, planned(['a', 1])], [1, { type: 'committed', id }]), 'saved', 2, SCREEN),
    ).toEqual([]);
  });

  it('a store that is silent for long is said to be', () => {
    const state = stateAfter();
    expect(renderBars(state, 'saved', 1999, SCREEN)).toEqual([]);
    expect(renderBars(state, 'saved', 12_000, SCREEN)).toEqual(['  waiting for the store   12 s']);
    expect(renderLine(state, 'saved', 20_000)).toBe('waiting for the store   20 s');
  });

  it('repeated requests are counted', () => {
    const retried = stateAfter(
      [0, planned(['a', 10])],
      [1, { type: 'retry', detail: 'reset' }],
      [2, { type: 'retry', detail: 'reset' }],
    );
    expect(renderBars(retried, 'saved', 3, SCREEN).at(-1)).toContain('2 requests repeated');
  });
});

describe('renderLine', () => {
  it('is one line with version, share, percent, files and pace', () => {
    const state = stateAfter(
      [0, planned(['a', 4 * GIB], ['b', 4 * GIB])],
      [1000, bytes('a', 2 * GIB, 4 * GIB)],
    );
    expect(renderLine(state, 'saved', 1000)).toBe(
      'version 1200   saved 2.0 of 8.0 GiB (25%)   0 of 2 files   2.0 GiB/s   3 s left',
    );
  });

  it('waiting', () => {
    const state = stateAfter(
      [0, joined],
      [1, { type: 'waiting', version: 1200n, missingWriters: [1], waitedMs: 30_000 }],
    );
    expect(renderLine(state, 'saved', 2)).toBe('version 1200   waiting for writer 1   30 s');
  });

  it('nothing where a mirror waits for the next checkpoint, until there is one', () => {
    const idle = stateAfter([0, planned(['a', 10])], [1, { type: 'idle', waitMs: 10_000 }]);
    expect([renderLine(idle, 'copied', 2), renderBars(idle, 'copied', 9000, SCREEN)]).toEqual(['', []]);
    idle.apply(planned(['a', 10]), 3);
    expect(renderLine(idle, 'copied', 4)).toContain('copied 0 of 10 B');
  });
});

describe('ProgressState', () => {
  it('a restore that falls back counts from nothing again', () => {
    const state = stateAfter([0, planned(['a', 10])], [1, bytes('a', 10, 10)], [2, planned(['a', 20])]);
    expect(state.doneBytes).toBe(0);
    expect(state.doneFiles).toBe(0);
    expect(state.totalBytes).toBe(20);
  });

  it('bytes of a stream of unknown length count too', () => {
    const state = stateAfter([0, planned(['s', 0])], [1, bytes('s', 5, 0)], [2, bytes('s', 9, 9)]);
    expect(state.doneBytes).toBe(9);
    expect(state.doneFiles).toBe(1);
  });
});

describe('Pace', () => {
  it('is that of the last seconds, and falls when nothing comes', () => {
    const pace = new Pace();
    pace.restart(0);
    for (let second = 1; second <= 20; second += 1) pace.add(second * 1000, second * 100);
    expect(pace.bytesPerSecond(20_000)).toBeCloseTo(100);
    expect(pace.bytesPerSecond(30_000)).toBeLessThan(50);
  });

  it('is unknown before anything came', () => {
    const pace = new Pace();
    pace.restart(0);
    expect(pace.bytesPerSecond(5000)).toBeNull();
  });
});

describe('createReporter', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  function reporterIn(mode: ProgressMode) {
    vi.useFakeTimers();
    let text = '';
    const started = Date.now();
    const clock: Clock = {
      nowMs: () => Date.now(),
      monotonicMs: () => Date.now() - started,
      sleep: () => Promise.reject(new Error('not used')),
    };
    const stream = { write: (part: string) => (text += part), columns: 100, rows: 30 };
    const reporter = createReporter({ mode, stream, clock });
    return { reporter, text: () => text, lines: () => text.split('\n').filter((line) => line !== '') };
  }
  const task = {
    verb: 'saved',
    headline: (event: ProgressEvent) => (event.type === 'joined' ? 'HEAD' : null),
  };

  it('plain: the headline, and one line every ten seconds', async () => {
    const { reporter, lines } = reporterIn('plain');
    await reporter.begin(task);
    reporter.onProgress(joined);
    reporter.onProgress(planned(['a', 100]));
    expect(lines()).toEqual(['HEAD']);
    vi.advanceTimersByTime(9_999);
    expect(lines()).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(lines()[1]).toContain('saved 0 of 100 B (0%)');
    vi.advanceTimersByTime(20_000);
    expect(lines()).toHaveLength(4);
    reporter.onProgress({ type: 'idle', waitMs: 10_000 });
    vi.advanceTimersByTime(60_000);
    expect(lines()).toHaveLength(4);
    reporter.end();
    vi.advanceTimersByTime(60_000);
    expect(lines()).toHaveLength(4);
  });

  it('one line for a file that goes on from what an interrupted save has left, and none with --quiet', async () => {
    const resumed: ProgressEvent = { type: 'resumed', version: 7n, name: 'a\nb', keptBytes: 3 * 2 ** 20 };
    for (const mode of ['plain', 'none'] as const) {
      const { reporter, lines } = reporterIn(mode);
      await reporter.begin(task);
      reporter.onProgress(resumed);
      reporter.end();
      expect(lines()).toEqual(
        mode === 'none' ? [] : ['resumed   a\\x0ab   3.0 MiB were already there, from an interrupted save'],
      );
    }
    const { reporter, lines } = reporterIn('json');
    await reporter.begin(task);
    reporter.onProgress(resumed);
    expect(lines().map((line) => JSON.parse(line))).toEqual([
      { at: expect.any(String), type: 'resumed', version: 7, name: 'a\nb', keptBytes: 3 * 2 ** 20 },
    ]);
  });

  it('json: one object per event, bytes at most five times a second and always the last', async () => {
    const { reporter, lines } = reporterIn('json');
    await reporter.begin(task);
    reporter.onProgress({ ...joined, version: 2n ** 60n } as ProgressEvent);
    for (let done = 1; done <= 100; done += 1) reporter.onProgress(bytes('a', done, 100));
    reporter.write('a word');
    const events = lines().map((line) => JSON.parse(line));
    expect(events.map((event) => event.type)).toEqual(['joined', 'bytes', 'bytes', 'message']);
    expect(events[0].version).toBe('1152921504606846976');
    expect(events[2].doneBytes).toBe(100);
    expect(events[3].text).toBe('a word');
    for (const event of events) expect(event.at).toMatch(/^\d{4}-\d\d-\d\dT.*Z$/);
  });

  it('none: only messages', async () => {
    const { reporter, lines } = reporterIn('none');
    await reporter.begin(task);
    reporter.onProgress(joined);
    reporter.onProgress(planned(['a', 100]));
    vi.advanceTimersByTime(60_000);
    reporter.write('a word');
    expect(lines()).toEqual(['a word']);
  });

  it('bars: drawn in place, a message goes between, and in the end they are gone', async () => {
    const { reporter, text } = reporterIn('bars');
    await reporter.begin(task);
    reporter.onProgress(joined);
    reporter.onProgress(planned(['a', 100]));
    const before = text().length;
    reporter.onProgress(bytes('a', 50, 100));
    vi.advanceTimersByTime(100);
    expect(text().length).toBeGreaterThan(before);
    expect(text()).toContain('\u001b[');
    reporter.write('a word');
    reporter.end();
    const ended = text();
    vi.advanceTimersByTime(1000);
    reporter.end();
    expect(text()).toBe(ended);
    expect(ended).toContain('a word\n');
  });
});
