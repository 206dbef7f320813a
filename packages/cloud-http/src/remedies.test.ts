import { describe, expect, it } from 'vitest';
import { HttpRefusal } from './errors.ts';
import { Remedies, StoreClock } from './remedies.ts';

const refusal = (date?: string) =>
  new HttpRefusal(
    { status: 403, headers: date === undefined ? {} : { date }, hasBody: false },
    { code: 'Expired', message: '', requestId: '1' },
  );

describe('Remedies', () => {
  it('sends once more after a correction, and not a third time', async () => {
    let sent = 0;
    let corrected = 0;
    const send = async () => {
      sent += 1;
      throw refusal();
    };
    const all = new Remedies().run(send, () => () => {
      corrected += 1;
      return true;
    });
    await expect(all).rejects.toMatchObject({ code: 'Expired' });
    expect([sent, corrected]).toEqual([2, 1]);
  });

  it('does not send again if nothing was changed, or what failed is no refusal', async () => {
    let sent = 0;
    const remedies = new Remedies();
    const failing = (error: Error) => async () => {
      sent += 1;
      throw error;
    };
    await expect(remedies.run(failing(refusal()), () => () => false)).rejects.toThrow();
    await expect(remedies.run(failing(refusal()), () => undefined)).rejects.toThrow();
    await expect(remedies.run(failing(new Error('cut')), () => () => true)).rejects.toThrow('cut');
    expect(sent).toBe(3);
  });

  it('a correction that another request made meanwhile is enough', async () => {
    const remedies = new Remedies();
    const late = Promise.withResolvers<void>();
    let corrected = 0;
    const remedy = () => {
      corrected += 1;
      return true;
    };
    let sent = 0;
    const slow = remedies.run(
      async () => {
        sent += 1;
        if (sent > 1) return 'sent again';
        await late.promise;
        throw refusal();
      },
      () => remedy,
    );
    let isSecond = false;
    const quick = async () => {
      if (isSecond) return 'done';
      isSecond = true;
      throw refusal();
    };
    expect(await remedies.run(quick, () => remedy)).toBe('done');
    late.resolve();
    expect([await slow, corrected]).toEqual(['sent again', 1]);
  });
});

describe('StoreClock', () => {
  it('takes over a time that is far from its own, once, and no other', () => {
    const clock = new StoreClock();
    const inAnHour = new Date(Date.now() + 3_600_000).toUTCString();
    expect(clock.adjust(refusal())).toBe(false);
    expect(clock.adjust(refusal('yesterday'))).toBe(false);
    expect(clock.adjust(refusal(new Date().toUTCString()))).toBe(false);
    expect(clock.adjust(refusal(inAnHour))).toBe(true);
    expect(clock.adjust(refusal(inAnHour))).toBe(false);
    expect(clock.now().getTime() - Date.now()).toBeGreaterThan(3_500_000);
  });
});
