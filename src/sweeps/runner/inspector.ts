/**
 * Asks drivers about many machines, with bounded concurrency and time. Requests to a driver that
 * hangs keep their slots, so the driver gets no further requests and does not delay other drivers.
 */
import type { Clock } from '../../base/clock.ts';
import type { Driver, DriverState, DriverTarget, Observation } from '../../drivers/driver.ts';
import type { ExpectedMachine } from '../../store/supervision/machine-inspections.ts';

const maxConcurrent = 16;
const timeoutMs = 10_000;

export interface Inspection<M extends ExpectedMachine = ExpectedMachine> {
  machine: M;
  seen: Observation;
}

/** Leaves out the machines of a driver that had no free slot at the start. */
export interface InspectionResult<M extends ExpectedMachine = ExpectedMachine> {
  inspections: Inspection<M>[];
  /** Machines without an observation, including those that the driver cannot see from this host. */
  missed: { machine: M; because: string }[];
  /** The last error of each driver that did not answer, and how many machines that affects. */
  unanswered: Map<string, { machines: number; because: string }>;
}

interface InspectorServices {
  clock: Clock;
  drivers: ReadonlyMap<string, Driver>;
  installation: { installation_id: string };
}

export type Inspector = <M extends ExpectedMachine>(machines: readonly M[]) => Promise<InspectionResult<M>>;

export function createInspector({ clock, drivers, installation }: InspectorServices): Inspector {
  const pendingRequests = new Map<string, number>();
  const freeSlots = (driver: string) => maxConcurrent - (pendingRequests.get(driver) ?? 0);

  const targetOf = ({ driver: _, driver_state, status: __, status_since: ___, ...machine }: ExpectedMachine) =>
    ({
      ...machine,
      installation_id: installation.installation_id,
      state: driver_state as DriverState,
    }) satisfies DriverTarget;

  /** Takes a slot until the driver answers, even if that is after the timeout. */
  const observe = (machine: ExpectedMachine, driver: Driver): Promise<Observation> => {
    pendingRequests.set(driver.name, (pendingRequests.get(driver.name) ?? 0) + 1);
    return driver
      .inspect(targetOf(machine))
      .finally(() => pendingRequests.set(driver.name, (pendingRequests.get(driver.name) ?? 1) - 1));
  };

  const withTimeout = (answer: Promise<Observation>): Promise<Observation> => {
    const { promise, resolve, reject } = Promise.withResolvers<Observation>();
    const cancel = clock.after(timeoutMs, () => reject(new Error(`no answer within ${timeoutMs / 1000} s`)));
    answer.then(resolve, reject).finally(cancel);
    return promise;
  };

  return async <M extends ExpectedMachine>(machines: readonly M[]) => {
    const result: InspectionResult<M> = { inspections: [], missed: [], unanswered: new Map() };
    const addUnanswered = (machine: M, driver: string, because: string) => {
      const { machines: previous = 0 } = result.unanswered.get(driver) ?? {};
      result.unanswered.set(driver, { machines: previous + 1, because });
      result.missed.push({ machine, because });
    };
    const inspectQueue = async (driver: Driver, queue: Iterator<M>) => {
      for (let next = queue.next(); !next.done; next = queue.next()) {
        const machine = next.value;
        if (freeSlots(driver.name) <= 0) {
          addUnanswered(machine, driver.name, `${maxConcurrent} earlier requests are not answered yet`);
          continue;
        }
        try {
          const seen = await withTimeout(observe(machine, driver));
          if (!seen.unseen) result.inspections.push({ machine, seen });
          else result.missed.push({ machine, because: seen.detail ?? 'the machine cannot be seen from this host' });
        } catch (error) {
          addUnanswered(machine, driver.name, error instanceof Error ? error.message : String(error));
        }
      }
    };
    const byDriver = Map.groupBy(machines, ({ driver }) => driver);
    await Promise.all(
      [...byDriver].flatMap(([name, assigned]) => {
        const driver = drivers.get(name);
        if (!driver) return [];
        const queue = assigned.values();
        return Array.from({ length: Math.min(freeSlots(name), assigned.length) }, () => inspectQueue(driver, queue));
      }),
    );
    return result;
  };
}
