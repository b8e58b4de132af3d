/**
 * Asks drivers about many machines, with bounded concurrency and time. A driver that hangs keeps
 * its slots, so it gets no further requests and does not delay the others.
 */
import type { Clock } from '../../base/clock.ts';
import type { Driver, DriverState, DriverTarget, Observation } from '../../drivers/driver.ts';
import type { ExpectedMachine } from '../../store/supervision/machine-inspections.ts';

const atOnce = 16;
const withinMs = 10_000;

export interface Looked<M extends ExpectedMachine = ExpectedMachine> {
  machine: M;
  seen: Observation;
}

export interface Looks<M extends ExpectedMachine = ExpectedMachine> {
  looked: Looked<M>[];
  /** Machines of which nothing was learned, including those the driver cannot see from here. */
  missed: { machine: M; because: string }[];
  /** The error of each driver that could not be asked. */
  unanswered: Map<string, { machines: number; because: string }>;
}

interface LookerServices {
  clock: Clock;
  drivers: ReadonlyMap<string, Driver>;
  installation: { installation_id: string };
}

export type Looker = <M extends ExpectedMachine>(machines: readonly M[]) => Promise<Looks<M>>;

export function createLooker({ clock, drivers, installation }: LookerServices): Looker {
  const open = new Map<string, number>();
  const places = (driver: string) => atOnce - (open.get(driver) ?? 0);

  const targetOf = ({ driver: _, driver_state, status: __, status_since: ___, ...machine }: ExpectedMachine) =>
    ({
      ...machine,
      installation_id: installation.installation_id,
      state: driver_state as DriverState,
    }) satisfies DriverTarget;

  /** The slot is released when the driver answers, however late. */
  const ask = (machine: ExpectedMachine, driver: Driver): Promise<Observation> => {
    open.set(driver.name, (open.get(driver.name) ?? 0) + 1);
    return driver.observe(targetOf(machine)).finally(() => open.set(driver.name, (open.get(driver.name) ?? 1) - 1));
  };

  const inTime = (answer: Promise<Observation>): Promise<Observation> => {
    const { promise, resolve, reject } = Promise.withResolvers<Observation>();
    const cancel = clock.after(withinMs, () => reject(new Error(`no answer within ${withinMs / 1000} s`)));
    answer.then(resolve, reject).finally(cancel);
    return promise;
  };

  return async <M extends ExpectedMachine>(machines: readonly M[]) => {
    const looks: Looks<M> = { looked: [], missed: [], unanswered: new Map() };
    const unanswered = (machine: M, driver: string, because: string) => {
      const { machines: before = 0 } = looks.unanswered.get(driver) ?? {};
      looks.unanswered.set(driver, { machines: before + 1, because });
      looks.missed.push({ machine, because });
    };
    const workOn = async (driver: Driver, queue: Iterator<M>) => {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        const machine = next.value;
        if (places(driver.name) <= 0) {
          unanswered(machine, driver.name, `${atOnce} earlier questions are not answered yet`);
          continue;
        }
        try {
          const seen = await inTime(ask(machine, driver));
          if (!seen.unseen) looks.looked.push({ machine, seen });
          else looks.missed.push({ machine, because: seen.detail ?? 'it cannot be seen from here' });
        } catch (error) {
          unanswered(machine, driver.name, error instanceof Error ? error.message : String(error));
        }
      }
    };
    const byDriver = Map.groupBy(machines, ({ driver }) => driver);
    await Promise.all(
      [...byDriver].flatMap(([name, assigned]) => {
        const driver = drivers.get(name);
        if (!driver) return [];
        const queue = assigned.values();
        return Array.from({ length: Math.min(places(name), assigned.length) }, () => workOn(driver, queue));
      }),
    );
    return looks;
  };
}
