/**
 * The conformance suite of drivers. It runs each driver against real machines or a server that
 * imitates the provider, with a fault before or after each call.
 *
 * A crash replaces the driver object by a new one over the same world. A crash after the effect
 * drops the answer and its state: the call is then repeated with the state from before.
 */
import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { now, pause, secondsBetween, systemClock } from '../base/clock.ts';
import type {
  Driver,
  DriverDone,
  DriverFailure,
  DriverOutcome,
  DriverState,
  DriverTarget,
  EnsureTarget,
} from './driver.ts';

/**
 * A driver's test provides this: a place where machines can exist, and a view of it that does not
 * use the driver.
 */
export interface DriverWorld {
  /** A driver over this world; each call returns a new object without memory. */
  open(): Driver;
  /** A machine that was not requested yet; two with the same installation id belong together. */
  target(installation_id: string): EnsureTarget;
  /** How many machines of this instance really exist, counted without the driver. */
  machines(target: DriverTarget): Promise<number>;
  /** Ends the machine without the driver, as if it had crashed. */
  killMachine(target: DriverTarget): Promise<void>;
  /** Creates what a crash in the middle of `ensure` can leave behind. */
  halfDone: { name: string; leave(target: EnsureTarget): Promise<void> }[];
  /** Whatever must happen outside the driver before its final proof is possible. */
  beforeProof(target: DriverTarget): Promise<void>;
  /**
   * From then on the upstream accepts calls and never answers. Omitted if there is no upstream that
   * could hang.
   */
  silence?(): Promise<void>;
  close(): Promise<void>;
}

export type Fault = 'none' | 'crash_before_each_call' | 'crash_after_each_call' | 'each_call_twice';
export const faults: Fault[] = ['none', 'crash_before_each_call', 'crash_after_each_call', 'each_call_twice'];

type Call = 'ensure' | 'stop' | 'clean' | 'destroy' | 'abort';

const timeout_seconds = 30;

/** How long an operation may take to react to a cancel. */
const cancel_heard_within_seconds = 5;

export interface Handled {
  target: EnsureTarget;
  /**
   * Repeats a call until it is done, keeps its state like the control plane, and injects the fault
   * of this run.
   */
  done(call: Call): Promise<DriverDone>;
  ended(call: Call): Promise<DriverDone | DriverFailure>;
}

export function handle(world: DriverWorld, target: EnsureTarget, fault: Fault = 'none'): Handled {
  let driver = world.open();
  const keep = (state: DriverState | undefined) => {
    if (state) target.state = state;
  };
  const once = async (call: Call): Promise<DriverOutcome> => {
    if (fault === 'crash_before_each_call') driver = world.open();
    const first = await driver[call](target);
    if (fault === 'none' || fault === 'crash_before_each_call') return first;
    if (fault === 'each_call_twice' && first.outcome !== 'failed') keep(first.state);
    if (fault === 'crash_after_each_call') driver = world.open();
    return driver[call](target);
  };
  const ended = async (call: Call) => {
    const began = now(systemClock);
    for (;;) {
      const outcome = await once(call);
      if (outcome.outcome !== 'failed') keep(outcome.state);
      if (outcome.outcome !== 'wait') return outcome;
      expect(secondsBetween(began, now(systemClock)), `${call} still says: ${outcome.message}`).toBeLessThan(
        timeout_seconds,
      );
      await pause(systemClock, outcome.retry_seconds * 1000);
    }
  };
  return {
    target,
    ended,
    async done(call) {
      const outcome = await ended(call);
      if (outcome.outcome === 'failed') expect.fail(`${call} failed: ${outcome.code}: ${outcome.message}`);
      return outcome;
    },
  };
}

const newInstallation = () => `installation-${randomBytes(6).toString('hex')}`;
const newNonce = () => randomBytes(16).toString('hex');

/** `may_hang`: it calls an upstream that may never answer. */
export function describeDriver(name: string, make: () => Promise<DriverWorld>, { may_hang = true } = {}): void {
  describe(`driver contract: ${name}`, () => {
    let world: DriverWorld;
    let ours: string;
    beforeEach(async () => {
      world = await make();
      ours = newInstallation();
    });
    afterEach(() => world.close());

    const proveFinally = async (target: DriverTarget, nonce: string) => {
      const driver = world.open();
      return driver.prove(target, { kind: driver.final_proof, nonce });
    };

    describe.each(faults)('fault: %s', (fault) => {
      it('goes up once and down to a proof', async () => {
        const machine = handle(world, world.target(ours), fault);
        const { launches } = world.open();
        await machine.done('ensure');
        expect(await world.machines(machine.target)).toBe(launches ? 1 : 0);
        expect((await world.open().observe(machine.target)).present).toBe(true);
        await machine.done('stop');
        await machine.done('clean');
        await machine.done('destroy');
        expect(await world.machines(machine.target)).toBe(0);
        await world.beforeProof(machine.target);
        expect(await proveFinally(machine.target, newNonce())).toMatchObject({ outcome: 'done' });
      });

      it.each<Call>(['stop', 'clean', 'destroy', 'abort'])('%s of something never created is done', async (call) => {
        const machine = handle(world, world.target(ours), fault);
        await machine.done(call);
        expect(await world.machines(machine.target)).toBe(0);
      });

      it('aborts a machine that is coming up, and can then prove its absence', async () => {
        const machine = handle(world, world.target(ours), fault);
        await machine.done('ensure');
        await machine.done('abort');
        await machine.done('destroy');
        await world.beforeProof(machine.target);
        expect(await proveFinally(machine.target, newNonce())).toMatchObject({ outcome: 'done' });
      });

      it('destroys a machine that was never stopped', async () => {
        const machine = handle(world, world.target(ours), fault);
        await machine.done('ensure');
        await machine.done('destroy');
        expect(await world.machines(machine.target)).toBe(0);
      });
    });

    it('ensure finds the machine by its tags after all state was lost', async () => {
      const target = world.target(ours);
      await handle(world, target).done('ensure');
      const before = await world.machines(target);
      await handle(world, { ...target, state: {} }).done('ensure');
      expect(await world.machines(target)).toBe(before);
    });

    it('two concurrent ensures make one machine', async () => {
      const target = world.target(ours);
      const callers = [1, 2, 3].map(() => handle(world, { ...target, state: {} }));
      await Promise.all(callers.map((caller) => caller.done('ensure')));
      expect(await world.machines(target)).toBe(world.open().launches ? 1 : 0);
    });

    it('ensure and destroy both handle the leftovers of a crash during ensure', async () => {
      for (const { name: half, leave } of world.halfDone) {
        const continued = handle(world, world.target(ours));
        await leave(continued.target);
        await continued.done('ensure');
        expect(await world.machines(continued.target), `ensure after: ${half}`).toBe(1);

        const given_up = handle(world, world.target(ours));
        await leave(given_up.target);
        await given_up.done('destroy');
        expect(await world.machines(given_up.target), `destroy after: ${half}`).toBe(0);
        expect(await proveFinally(given_up.target, newNonce()), `proof after: ${half}`).toMatchObject({
          outcome: 'done',
        });
      }
    });

    it('refuses the final proof while something is left, and binds it to the nonce', async () => {
      const machine = handle(world, world.target(ours));
      await machine.done('ensure');
      expect(await proveFinally(machine.target, newNonce())).toMatchObject({ outcome: 'failed', retryable: true });
      await machine.done('destroy');
      await world.beforeProof(machine.target);
      const nonce = newNonce();
      const proven = await proveFinally(machine.target, nonce);
      if (proven.outcome !== 'done') return expect.fail('no proof');
      expect(proven.proof).toMatchObject({ nonce, kind: world.open().final_proof });
      expect(proven.proof.checked.length).toBeGreaterThan(0);
      for (const { what, seen } of proven.proof.checked) expect([what, seen]).not.toContain('');
      const again = newNonce();
      expect(await proveFinally(machine.target, again)).toMatchObject({ proof: { nonce: again } });
    });

    it('observes existing machines, and reports others as absent', async () => {
      const { launches, open } = { launches: world.open().launches, open: () => world.open() };
      const machine = handle(world, world.target(ours));
      if (launches) {
        expect(await open().observe(machine.target)).toMatchObject({ state: 'absent', present: false, ready: false });
      }
      await machine.done('ensure');
      expect(await open().observe(machine.target)).toMatchObject({ present: true });
      if (!launches) return;
      await world.killMachine(machine.target);
      expect(await open().observe(machine.target)).toMatchObject({ present: true, ready: false });
      await machine.done('destroy');
      expect(await open().observe(machine.target)).toMatchObject({ state: 'absent', present: false });
    });

    it("lists exactly what carries this installation's tag", async () => {
      const theirs = newInstallation();
      const mine = [handle(world, world.target(ours)), handle(world, world.target(ours))];
      const foreign = handle(world, world.target(theirs));
      for (const machine of [...mine, foreign]) await machine.done('ensure');
      const listed = async (installation_id: string) =>
        new Set((await world.open().list_owned(installation_id)).map(({ node_instance_id }) => node_instance_id));
      const { launches } = world.open();
      expect(await listed(ours)).toEqual(new Set(launches ? mine.map(({ target }) => target.node_instance_id) : []));
      expect(await listed(theirs)).toEqual(new Set(launches ? [foreign.target.node_instance_id] : []));
      for (const machine of mine) await machine.done('destroy');
      expect(await listed(ours)).toEqual(new Set());
      expect(await world.machines(foreign.target)).toBe(launches ? 1 : 0);
    });

    it.each<Call>(['stop', 'abort', 'destroy'])('%s touches only its own instance', async (call) => {
      const machine = handle(world, world.target(ours));
      const neighbour = handle(world, world.target(ours));
      await machine.done('ensure');
      await neighbour.done('ensure');
      const before = await world.machines(neighbour.target);
      await machine.done(call);
      expect(await world.machines(neighbour.target)).toBe(before);
      expect((await world.open().observe(neighbour.target)).present).toBe(true);
    });

    it('diagnoses a running machine, a dead one, and one that never existed', async () => {
      const machine = handle(world, world.target(ours));
      const stages: [string, () => Promise<unknown>][] = [
        ['never created', async () => {}],
        ['living', () => machine.done('ensure')],
        ['dead', () => world.killMachine(machine.target)],
        ['destroyed', () => machine.done('destroy')],
      ];
      for (const [stage, reach] of stages) {
        await reach();
        const { summary, attachments } = await world.open().diagnose(machine.target);
        expect(summary, stage).not.toBe('');
        for (const { name: attachment } of attachments) expect(attachment, stage).not.toBe('');
      }
    });

    if (may_hang)
      it('answers within five seconds if the upstream hangs, and calls nothing absent', async () => {
        if (!world.silence) return expect.fail('its world cannot fall silent');
        const up = world.target(ours);
        await handle(world, up).done('ensure');
        await world.silence();
        const hears = async (target: EnsureTarget) => {
          const driver = world.open();
          const began = now(systemClock);
          const [seen, clean, ...others] = await Promise.all([
            driver.observe(target),
            driver.clean(target),
            ...(['ensure', 'stop', 'destroy', 'abort'] as const).map((call) => driver[call](target)),
            driver.prove(target, { kind: driver.final_proof, nonce: newNonce() }),
            // These two cannot answer `wait`; it is enough that they end.
            driver.diagnose(target).then(() => ({ outcome: 'wait' })),
            driver.list_owned(ours).then(
              () => ({ outcome: 'wait' }),
              () => ({ outcome: 'wait' }),
            ),
          ]);
          expect(secondsBetween(began, now(systemClock))).toBeLessThan(cancel_heard_within_seconds);
          expect(clean.outcome).not.toBe('failed');
          for (const outcome of others) expect(outcome).toMatchObject({ outcome: 'wait' });
          expect(seen).toMatchObject({ present: true, unseen: true });
        };
        await Promise.all([hears(up), hears(world.target(ours))]);
      });

    it('plans with readable labels', () => {
      const planned = world.open().plan(world.target(ours).spec);
      expect(new Set(planned.map(({ phase }) => phase)).size, 'phases, each once').toBe(planned.length);
      for (const { phase, label } of planned) {
        expect(phase).toMatch(/^[a-z][a-z_-]*$/);
        expect(label).not.toBe('');
      }
    });
  });
}
