import { EventEmitter } from 'node:events';
import { ManualClock } from '@holdfast/testkit';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { EarlySignals } from './early-signals.ts';
import { type Interrupt, listenForInterrupt } from './interrupt.ts';

function setUp({ before = [] as string[] } = {}) {
  const [signals, clock] = [new EventEmitter(), new ManualClock()];
  const said: string[] = [];
  const early = new EarlySignals(signals);
  for (const signal of before) signals.emit(signal);
  const interrupt = listenForInterrupt(() => said.push('ending'), { clock, signals, early });
  return { signals, clock, said, interrupt };
}

const reasonOf = ({ signal }: Interrupt) => (signal.aborted ? signal.reason.message : null);

describe.each(['SIGINT', 'SIGTERM'])('%s twice', (signal) => {
  it.each([
    ['within half a second is one stop', 499, 0],
    ['after half a second ends the process at once', 500, 1],
  ])('%s', async (_, betweenMs, exits) => {
    const exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never);
    onTestFinished(() => exit.mockRestore());
    const { signals, clock, interrupt } = setUp();
    signals.emit(signal);
    await clock.advance(betweenMs);
    signals.emit(signal);
    expect(exit.mock.calls).toEqual(Array(exits).fill([130]));
    expect(reasonOf(interrupt)).toBe('interrupted');
  });
});

describe('SIGTERM', () => {
  it('interrupts at once, unless it is to be outlasted', () => {
    const { signals, said, interrupt } = setUp();
    signals.emit('SIGTERM');
    expect([reasonOf(interrupt), said]).toEqual(['interrupted', ['ending']]);
  });

  it('outlasted, is said once and interrupts when the time is up, however often it comes', async () => {
    const { signals, clock, said, interrupt } = setUp();
    interrupt.outlastSigterm(25_000, () => said.push('SIGTERM'));
    signals.emit('SIGTERM');
    await clock.advance(10_000);
    signals.emit('SIGTERM');
    await clock.advance(14_999);
    expect([reasonOf(interrupt), said]).toEqual([null, ['SIGTERM']]);
    await clock.advance(1);
    expect([reasonOf(interrupt), said]).toEqual(['stopped 25 s after SIGTERM', ['SIGTERM', 'ending']]);
  });

  it('outlasted, leaves Ctrl-C as it was, and nothing runs on after it', async () => {
    const { signals, clock, said, interrupt } = setUp();
    interrupt.outlastSigterm(25_000, () => said.push('SIGTERM'));
    signals.emit('SIGTERM');
    signals.emit('SIGINT');
    expect([reasonOf(interrupt), said]).toEqual(['interrupted', ['SIGTERM', 'ending']]);
    expect(clock.sleeperCount).toBe(0);
    await clock.advance(25_000);
    expect(said).toEqual(['SIGTERM', 'ending']);
  });

  it('outlasted by a call that ends in time: nothing is left that waits', () => {
    const { signals, clock, interrupt } = setUp();
    interrupt.outlastSigterm(25_000, () => undefined);
    signals.emit('SIGTERM');
    interrupt.dispose();
    expect([clock.sleeperCount, reasonOf(interrupt)]).toEqual([0, null]);
  });

  it('before the program was loaded interrupts once the command has begun', () => {
    const { said, interrupt } = setUp({ before: ['SIGTERM'] });
    expect([reasonOf(interrupt), said]).toEqual([null, []]);
    interrupt.deliverEarly();
    interrupt.deliverEarly();
    expect([reasonOf(interrupt), said]).toEqual(['interrupted', ['ending']]);
  });

  it('before the program was loaded is outlasted by a command that asks for it', async () => {
    const { signals, clock, said, interrupt } = setUp({ before: ['SIGTERM'] });
    interrupt.outlastSigterm(25_000, () => said.push('SIGTERM'));
    interrupt.deliverEarly();
    expect([reasonOf(interrupt), said]).toEqual([null, ['SIGTERM']]);
    await clock.advance(25_000);
    expect(reasonOf(interrupt)).toBe('stopped 25 s after SIGTERM');
    expect([signals.listenerCount('SIGINT'), signals.listenerCount('SIGTERM')]).toEqual([1, 1]);
  });

  it('and Ctrl-C after the outcome do nothing, and do not end the process either', () => {
    const { signals, said, interrupt } = setUp();
    interrupt.dispose();
    // A signal that has no listener ends the process.
    for (const signal of ['SIGTERM', 'SIGINT', 'SIGTERM']) expect(signals.emit(signal)).toBe(true);
    expect([reasonOf(interrupt), said]).toEqual([null, []]);
  });
});
