/**
 * Compares nodes with their machines and notes those that the provider does not show. Decides
 * nothing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { type Disagreement, endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import {
  deleteOldInspections,
  type ExpectedMachine,
  knownAbsent,
  lockUnchanged,
  machinesAfter,
  machinesWithFinding,
  obsoleteFindings,
  recordInspections,
  recordObservations,
} from '../../store/supervision/machine-inspections.ts';
import { createLooker, type Looked, type Looks } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';

/** Per pass; a larger fleet takes several passes for a round. */
const maxPerPass = 1000;
const batch = 200;
/** How often a driver that cannot be asked is reported. */
const reportAgainMs = 3_600_000;

const absentOf = ({ machine, seen }: Looked, node: JudgedNode, now: Date): Disagreement => ({
  what: 'machine_absent',
  subject: node.node_id,
  pool: node.pool,
  node_id: node.node_id,
  node_instance_id: machine.node_instance_id,
  allocation_id: node.holder,
  ours: { status: node.status, status_since: node.status_since, node_instance_id: machine.node_instance_id },
  theirs: { state: seen.state, detail: seen.detail, driver: machine.driver, at: now },
});

/**
 * Record changes and quarantined nodes only: a fact per look at each healthy machine would bury the
 * others.
 */
const isWorthKeeping = ({ seen }: Looked, node: JudgedNode): boolean =>
  node.status === 'quarantined' ||
  (seen.present ? node.observed_state === 'absent' : node.observed_state !== seen.state);

export function compareMachines(services: SweepServices): (now: Date) => Promise<void> {
  const { db, clock, environment, drivers } = services;
  const look = createLooker(services);
  const toldMs = new Map<string, number>();
  let cursor = '';

  const keep = async (looked: readonly Looked[], passed: Date, now: Date) => {
    const news = new Map<string, Looked>();
    const doubted = new Set(
      (
        await standingFindings(
          db,
          ['machine_absent'],
          looked.map(({ machine }) => machine.node_id),
        )
      ).map(({ subject }) => subject),
    );
    for (const each of looked) {
      const { node_id, status } = each.machine;
      if (!each.seen.present || status === 'quarantined' || doubted.has(node_id)) news.set(node_id, each);
    }
    if (news.size > 0)
      await db.transaction(async (tx) => {
        const nodes = await lockUnchanged(
          tx,
          [...news.values()].map(({ machine }) => machine),
        );
        const pairs = nodes.flatMap((node) => {
          const seen = news.get(node.node_id);
          return seen ? [{ node, looked: seen }] : [];
        });
        const worthKeeping = pairs.filter(({ node, looked }) => isWorthKeeping(looked, node));
        await recordObservations(
          tx,
          worthKeeping.map(({ node, looked }) => ({ node, state: looked.seen.state })),
          now,
        );
        const absent = pairs.filter(({ looked }) => !looked.seen.present);
        const removed = await knownAbsent(
          tx,
          absent.map(({ looked }) => looked.machine.node_instance_id),
        );
        const missing = absent.filter(({ looked }) => !removed.has(looked.machine.node_instance_id));
        const found = missing.map(({ node, looked }) => ({
          finding_id: newFindingId(clock),
          ...absentOf(looked, node, now),
        }));
        await noteDisagreements(tx, found, passed, now, environment.decide.isConfirmed);
        const there = pairs.filter(({ looked }) => looked.seen.present).map(({ node }) => node.node_id);
        const agreeing = there.length === 0 ? [] : await standingFindings(tx, ['machine_absent'], there);
        await endFindings(tx, agreeing, 'its provider shows the machine again', now);
      });
    await recordInspections(
      db,
      looked.map(({ machine }) => machine.node_id),
      now,
    );
  };

  /** A driver that does not answer causes no verdict, but is reported. */
  const reportUnanswered = async ({ unanswered }: Looks, now: Date) => {
    for (const [driver, { machines, because }] of unanswered) {
      const nowMs = clock.monotonicMs();
      if (nowMs - (toldMs.get(driver) ?? Number.NEGATIVE_INFINITY) < reportAgainMs) continue;
      toldMs.set(driver, nowMs);
      const summary = `the driver ${driver} could not be asked about ${machines} machines: ${because}`;
      await recordEvidence(db, [
        { at: now, layer: 'provider', kind: 'driver.unanswered', summary, data: { driver, machines, because } },
      ]);
    }
  };

  return async (now) => {
    const { every_seconds, parked_seconds } = environment.drift;
    const passed = secondsLater(now, -every_seconds / 2);
    const question = {
      drivers: [...drivers.values()].filter(({ launches }) => launches).map(({ name }) => name),
      looked_before: passed,
      // One pass early, so that the time between two looks never exceeds the promised one.
      parked_looked_before: secondsLater(now, every_seconds - parked_seconds),
    };
    const outlived = await obsoleteFindings(db, batch);
    if (outlived.length > 0)
      await db.transaction((tx) => endFindings(tx, outlived, 'the machine is not expected any more', now));
    const lookAt = async (machines: ExpectedMachine[]) => {
      const looks = await look(machines);
      await keep(looks.looked, passed, now);
      await reportUnanswered(looks, now);
    };
    await lookAt(await machinesWithFinding(db, question, batch));
    for (let left = maxPerPass; left > 0; left -= batch) {
      const machines = await machinesAfter(db, question, cursor, batch);
      await lookAt(machines);
      const last = machines.at(-1);
      cursor = machines.length === batch && last ? last.node_id : '';
      if (cursor === '') break;
    }
    if (cursor === '') await deleteOldInspections(db, secondsLater(now, -2 * Math.max(parked_seconds, every_seconds)));
  };
}
