/**
 * `restored-machines`: runs only after a restore. Compares the restored rows with what providers
 * list and show and with the last release that each agent has stored, and records the differences.
 * Decides nothing.
 */
import type { Driver } from '../../drivers/driver.ts';
import { queuePing } from '../../operations/actions/ping-now.ts';
import { withTimeout } from '../../operations/runtime/bounded-calls.ts';
import {
  compareReleases,
  compareResources,
  type Difference,
  findAgentsToAsk,
  replaceDifferences,
} from '../../store/backup/restoration-differences.ts';
import { markInspected, type RestorationRow, readOpenRestoration } from '../../store/backup/restorations.ts';
import { findMachinesToInspect } from '../../store/supervision/machine-inspections.ts';
import { handleEach } from '../runner/handle-each.ts';
import { createInspector, type Inspection } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const everySeconds = 10;
const listTimeoutSeconds = 60;
const batch = 200;
/** Providers limit their requests, and machines change slowly while nobody acts. */
const inspectEverySeconds = 60;
const askBatch = 1_000;
const concurrentPings = 10;
/** How long an agent has for its answer. An agent without a stream polls at least this often. */
const pingSeconds = 120;

const hostOf = (driver: Driver) => (driver.host_bound ? (driver.host_id ?? null) : null);

const goneDifference = ({ machine, seen }: Inspection): Difference => ({
  kind: 'gone',
  subject: machine.node_id,
  driver: machine.driver,
  host: null,
  node_id: machine.node_id,
  node_instance_id: machine.node_instance_id,
  seen: seen.detail ?? `the provider shows the machine as ${seen.state}`,
});

export function restoredMachines(services: SweepServices): Sweep {
  const { db, drivers, clock, installation, host } = services;
  const inspect = createInspector(services);
  /** The last comparison with the providers, and when the next one is due. */
  let round: { restoration_id: string; next_ms: number } | undefined;

  const store = (restoration: RestorationRow, source: string, differences: readonly Difference[], now: Date) =>
    db.transaction((tx) => replaceDifferences(tx, restoration.restoration_id, { source, differences }, now));

  async function compareListed(restoration: RestorationRow, driver: Driver, now: Date): Promise<void> {
    const owned = await withTimeout(clock, listTimeoutSeconds, driver.list_owned(installation.installation_id));
    if (!owned) throw new Error(`did not list its resources within ${listTimeoutSeconds} s`);
    const host = hostOf(driver);
    const listed = owned.map((each) => ({ ...each, driver: driver.name, host, cost_per_hour: null }));
    await store(
      restoration,
      `listed by ${driver.name} on ${host ?? 'any host'}`,
      await compareResources(db, listed),
      now,
    );
  }

  /** Throws if a machine that a driver should see was not inspected. */
  async function inspectAll(restoration: RestorationRow, now: Date): Promise<void> {
    const gone: Difference[] = [];
    const silentDrivers = new Set<string>();
    const due = { drivers: [...drivers.keys()], inspected_before: now, quarantined_inspected_before: now };
    for (let cursor = ''; ; ) {
      const machines = await findMachinesToInspect(db, due, cursor, batch);
      const { inspections, missed, unanswered } = await inspect(machines);
      gone.push(...inspections.filter(({ seen }) => !seen.present).map(goneDifference));
      for (const name of unanswered.keys()) silentDrivers.add(name);
      // The machines of a driver without a free slot are in neither list.
      const reached = new Set([...inspections, ...missed].map(({ machine }) => machine.node_id));
      for (const { node_id, driver } of machines) if (!reached.has(node_id)) silentDrivers.add(driver);
      const last = machines.at(-1);
      if (!last || machines.length < batch) break;
      cursor = last.node_id;
    }
    // The source names the host, because a replica on another host sees other machines.
    await store(restoration, `inspected from ${host}`, gone, now);
    if (silentDrivers.size > 0) throw new Error(`not all machines were inspected: ${[...silentDrivers].join(', ')}`);
  }

  async function compareProviders(restoration: RestorationRow, now: Date): Promise<void> {
    const failures = await handleEach(
      [...drivers.values()],
      ({ name }) => name,
      (driver) => compareListed(restoration, driver, now),
    );
    await inspectAll(restoration, now);
    if (failures.length > 0) throw new Error(failures.join('; '));
    await markInspected(db, restoration.restoration_id, now);
  }

  /** Queues pings, a bounded number at a time, and compares the answers that have arrived. */
  async function askAgents(restoration: RestorationRow, now: Date): Promise<void> {
    const targets = await findAgentsToAsk(db, restoration.began_at, now, askBatch);
    for (let from = 0; from < targets.length; from += concurrentPings)
      await Promise.allSettled(
        targets.slice(from, from + concurrentPings).map((target) => queuePing(services, target, pingSeconds)),
      );
    await db.transaction((tx) => compareReleases(tx, restoration, now));
  }

  return {
    name: 'restored-machines',
    runsAfterRestore: true,
    every_seconds: everySeconds,
    async run(now) {
      if (!services.restoration.isObserving()) return { decided: 0 };
      const restoration = await readOpenRestoration(db);
      if (!restoration) return { decided: 0 };
      await askAgents(restoration, now);
      const isRecent = round?.restoration_id === restoration.restoration_id && clock.monotonicMs() < round.next_ms;
      if (isRecent) return { decided: 0 };
      try {
        await compareProviders(restoration, now);
      } finally {
        const next_ms = clock.monotonicMs() + 1000 * inspectEverySeconds;
        round = { restoration_id: restoration.restoration_id, next_ms };
      }
      return { decided: 0 };
    },
  };
}
