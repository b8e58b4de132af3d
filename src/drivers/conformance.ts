/**
 * The conformance suite that every driver must pass. It runs a driver against real machines, or
 * against a server that imitates the provider, with a fault before or after each call.
 *
 * The suite simulates a crash by opening a new driver object on the same fixture. A crash after a
 * call also drops the call's result, so the call is repeated with the earlier state.
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
 * The environment of a driver under test, written by each driver's test. It can inspect and change
 * machines without the driver.
 */
export interface DriverFixture {
  /** Returns a new driver on this fixture. It has no state in memory. */
  open(): Driver;
  /** Returns the target of a new machine that has not been requested yet. */
  target(installation_id: string): EnsureTarget;
  /** Counts the machines of this instance, without using the driver. */
  machines(target: DriverTarget): Promise<number>;
  /** Kills the machine without using the driver, as if the machine had crashed. */
  killMachine(target: DriverTarget): Promise<void>;
  /** Each entry creates the resources that a crash during `ensure` can leave behind. */
  partialLaunches: { name: string; leave(target: EnsureTarget): Promise<void> }[];
  /** Does what must happen outside the driver before the final proof is possible. */
  beforeProof(target: DriverTarget): Promise<void>;
  /**
   * Makes the upstream accept calls and never answer. Omitted if the driver has no upstream that
   * could hang.
   */
  silence?(): Promise<void>;
  close(): Promise<void>;
}

export type Fault = 'none' | 'crash_before_each_call' | 'crash_after_each_call' | 'each_call_twice';
export const faults: Fault[] = ['none', 'crash_before_each_call', 'crash_after_each_call', 'each_call_twice'];

type Call = 'ensure' | 'stop' | 'clean' | 'destroy' | 'abort';

const timeout_seconds = 30;

/** A longer call would delay the reaction to a cancel. */
const max_call_seconds = 5;

export interface MachineHandle {
  target: EnsureTarget;
  /**
   * Repeats a call until it is done. Stores the returned state as the control plane does, and
   * injects the fault of this run. Fails the test if the call fails.
   */
  done(call: Call): Promise<DriverDone>;
  /** Like `done`, but also returns a failure. */
  ended(call: Call): Promise<DriverDone | DriverFailure>;
}

export function handle(fixture: DriverFixture, target: EnsureTarget, fault: Fault = 'none'): MachineHandle {
  let driver = fixture.open();
  const storeState = (state: DriverState | undefined) => {
    if (state) target.state = state;
  };
  const callOnce = async (call: Call): Promise<DriverOutcome> => {
    if (fault === 'crash_before_each_call') driver = fixture.open();
    const first = await driver[call](target);
    if (fault === 'none' || fault === 'crash_before_each_call') return first;
    if (fault === 'each_call_twice' && first.outcome !== 'failed') storeState(first.state);
    if (fault === 'crash_after_each_call') driver = fixture.open();
    return driver[call](target);
  };
  const ended = async (call: Call) => {
    const began = now(systemClock);
    for (;;) {
      const outcome = await callOnce(call);
      if (outcome.outcome !== 'failed') storeState(outcome.state);
      if (outcome.outcome !== 'wait') return outcome;
      expect(secondsBetween(began, now(systemClock)), `${call} still waits: ${outcome.message}`).toBeLessThan(
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

/** `may_hang` is true if the driver calls an upstream that may never answer. */
export function describeDriver(name: string, make: () => Promise<DriverFixture>, { may_hang = true } = {}): void {
  describe(`driver contract: ${name}`, () => {
    let fixture: DriverFixture;
    let installation: string;
    beforeEach(async () => {
      fixture = await make();
      installation = newInstallation();
    });
    afterEach(() => fixture.close());

    const finalProof = async (target: DriverTarget, nonce: string) => {
      const driver = fixture.open();
      return driver.prove(target, { kind: driver.final_proof, nonce });
    };

    describe.each(faults)('fault: %s', (fault) => {
      it('creates one machine, removes it, and proves the removal', async () => {
        const machine = handle(fixture, fixture.target(installation), fault);
        const { launches } = fixture.open();
        await machine.done('ensure');
        expect(await fixture.machines(machine.target)).toBe(launches ? 1 : 0);
        expect((await fixture.open().inspect(machine.target)).present).toBe(true);
        await machine.done('stop');
        await machine.done('clean');
        await machine.done('destroy');
        expect(await fixture.machines(machine.target)).toBe(0);
        await fixture.beforeProof(machine.target);
        expect(await finalProof(machine.target, newNonce())).toMatchObject({ outcome: 'done' });
      });

      it.each<Call>(['stop', 'clean', 'destroy', 'abort'])(
        '%s succeeds for a machine that was never created',
        async (call) => {
          const machine = handle(fixture, fixture.target(installation), fault);
          await machine.done(call);
          expect(await fixture.machines(machine.target)).toBe(0);
        },
      );

      it('aborts a launched machine and then proves its removal', async () => {
        const machine = handle(fixture, fixture.target(installation), fault);
        await machine.done('ensure');
        await machine.done('abort');
        await machine.done('destroy');
        await fixture.beforeProof(machine.target);
        expect(await finalProof(machine.target, newNonce())).toMatchObject({ outcome: 'done' });
      });

      it('destroys a machine that was never stopped', async () => {
        const machine = handle(fixture, fixture.target(installation), fault);
        await machine.done('ensure');
        await machine.done('destroy');
        expect(await fixture.machines(machine.target)).toBe(0);
      });
    });

    it('ensure creates no second machine after the stored state was lost', async () => {
      const target = fixture.target(installation);
      await handle(fixture, target).done('ensure');
      const machinesBefore = await fixture.machines(target);
      await handle(fixture, { ...target, state: {} }).done('ensure');
      expect(await fixture.machines(target)).toBe(machinesBefore);
    });

    it('concurrent calls of ensure create one machine', async () => {
      const target = fixture.target(installation);
      const callers = [1, 2, 3].map(() => handle(fixture, { ...target, state: {} }));
      await Promise.all(callers.map((caller) => caller.done('ensure')));
      expect(await fixture.machines(target)).toBe(fixture.open().launches ? 1 : 0);
    });

    it('ensure and destroy both succeed after a crash during ensure', async () => {
      for (const { name: leftover, leave } of fixture.partialLaunches) {
        const ensured = handle(fixture, fixture.target(installation));
        await leave(ensured.target);
        await ensured.done('ensure');
        expect(await fixture.machines(ensured.target), `ensure after: ${leftover}`).toBe(1);

        const destroyed = handle(fixture, fixture.target(installation));
        await leave(destroyed.target);
        await destroyed.done('destroy');
        expect(await fixture.machines(destroyed.target), `destroy after: ${leftover}`).toBe(0);
        expect(await finalProof(destroyed.target, newNonce()), `proof after: ${leftover}`).toMatchObject({
          outcome: 'done',
        });
      }
    });

    it('refuses the final proof while the machine exists, and puts the given nonce into the proof', async () => {
      const machine = handle(fixture, fixture.target(installation));
      await machine.done('ensure');
      expect(await finalProof(machine.target, newNonce())).toMatchObject({ outcome: 'failed', retryable: true });
      await machine.done('destroy');
      await fixture.beforeProof(machine.target);
      const nonce = newNonce();
      const answer = await finalProof(machine.target, nonce);
      if (answer.outcome !== 'done') return expect.fail('no proof');
      expect(answer.proof).toMatchObject({ nonce, kind: fixture.open().final_proof });
      expect(answer.proof.checked.length).toBeGreaterThan(0);
      for (const { what, seen } of answer.proof.checked) expect([what, seen]).not.toContain('');
      const secondNonce = newNonce();
      expect(await finalProof(machine.target, secondNonce)).toMatchObject({ proof: { nonce: secondNonce } });
    });

    it('reports a machine as present, as not ready after a crash, and as absent after it was destroyed', async () => {
      const { launches } = fixture.open();
      const open = () => fixture.open();
      const machine = handle(fixture, fixture.target(installation));
      if (launches) {
        expect(await open().inspect(machine.target)).toMatchObject({ state: 'absent', present: false, ready: false });
      }
      await machine.done('ensure');
      expect(await open().inspect(machine.target)).toMatchObject({ present: true });
      if (!launches) return;
      await fixture.killMachine(machine.target);
      expect(await open().inspect(machine.target)).toMatchObject({ present: true, ready: false });
      await machine.done('destroy');
      expect(await open().inspect(machine.target)).toMatchObject({ state: 'absent', present: false });
    });

    it("lists exactly the machines with this installation's tag", async () => {
      const otherInstallation = newInstallation();
      const machines = [handle(fixture, fixture.target(installation)), handle(fixture, fixture.target(installation))];
      const foreign = handle(fixture, fixture.target(otherInstallation));
      for (const machine of [...machines, foreign]) await machine.done('ensure');
      const listInstances = async (installation_id: string) =>
        new Set((await fixture.open().list_owned(installation_id)).map(({ node_instance_id }) => node_instance_id));
      const { launches } = fixture.open();
      expect(await listInstances(installation)).toEqual(
        new Set(launches ? machines.map(({ target }) => target.node_instance_id) : []),
      );
      expect(await listInstances(otherInstallation)).toEqual(
        new Set(launches ? [foreign.target.node_instance_id] : []),
      );
      for (const machine of machines) await machine.done('destroy');
      expect(await listInstances(installation)).toEqual(new Set());
      expect(await fixture.machines(foreign.target)).toBe(launches ? 1 : 0);
    });

    it.each<Call>(['stop', 'abort', 'destroy'])('%s does not touch another instance', async (call) => {
      const machine = handle(fixture, fixture.target(installation));
      const neighbour = handle(fixture, fixture.target(installation));
      await machine.done('ensure');
      await neighbour.done('ensure');
      const machinesBefore = await fixture.machines(neighbour.target);
      await machine.done(call);
      expect(await fixture.machines(neighbour.target)).toBe(machinesBefore);
      expect((await fixture.open().inspect(neighbour.target)).present).toBe(true);
    });

    it('diagnoses a machine that runs, was killed, was destroyed or never existed', async () => {
      const machine = handle(fixture, fixture.target(installation));
      const stages: [string, () => Promise<unknown>][] = [
        ['never created', async () => {}],
        ['running', () => machine.done('ensure')],
        ['killed', () => fixture.killMachine(machine.target)],
        ['destroyed', () => machine.done('destroy')],
      ];
      for (const [stage, reach] of stages) {
        await reach();
        const { summary, attachments } = await fixture.open().diagnose(machine.target);
        expect(summary, stage).not.toBe('');
        for (const { name: attachment } of attachments) expect(attachment, stage).not.toBe('');
      }
    });

    if (may_hang)
      it('answers within five seconds if the upstream hangs, and does not report absence', async () => {
        if (!fixture.silence) return expect.fail('the fixture has no `silence`');
        const launched = fixture.target(installation);
        await handle(fixture, launched).done('ensure');
        await fixture.silence();
        const checkCalls = async (target: EnsureTarget) => {
          const driver = fixture.open();
          const began = now(systemClock);
          const [observation, clean, ...outcomes] = await Promise.all([
            driver.inspect(target),
            driver.clean(target),
            ...(['ensure', 'stop', 'destroy', 'abort'] as const).map((call) => driver[call](target)),
            driver.prove(target, { kind: driver.final_proof, nonce: newNonce() }),
            // The last two calls have no `wait` outcome, so it is enough that they return in time.
            driver.diagnose(target).then(() => ({ outcome: 'wait' })),
            driver.list_owned(installation).then(
              () => ({ outcome: 'wait' }),
              () => ({ outcome: 'wait' }),
            ),
          ]);
          expect(secondsBetween(began, now(systemClock))).toBeLessThan(max_call_seconds);
          expect(clean.outcome).not.toBe('failed');
          for (const outcome of outcomes) expect(outcome).toMatchObject({ outcome: 'wait' });
          expect(observation).toMatchObject({ present: true, unseen: true });
        };
        await Promise.all([checkCalls(launched), checkCalls(fixture.target(installation))]);
      });

    it('plans phases that are distinct and have labels', () => {
      const steps = fixture.open().plan(fixture.target(installation).spec);
      expect(new Set(steps.map(({ phase }) => phase)).size, 'distinct phases').toBe(steps.length);
      for (const { phase, label } of steps) {
        expect(phase).toMatch(/^[a-z][a-z_-]*$/);
        expect(label).not.toBe('');
      }
    });
  });
}
