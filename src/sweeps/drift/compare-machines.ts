/**
 * Inspects the machines of nodes, records when they disappear or appear again, and notes machines
 * that the provider no longer shows. Decides nothing.
 */
import { secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { recordEvidence } from '../../store/evidence/evidence.ts';
import { type Disagreement, endFindings, noteDisagreements, standingFindings } from '../../store/rows/findings.ts';
import type { JudgedNode } from '../../store/rows/judged.ts';
import {
  deleteOldInspections,
  type ExpectedMachine,
  findMachinesToInspect,
  findMachinesWithFinding,
  findObsoleteFindings,
  findProvenAbsent,
  lockUnchanged,
  recordInspections,
  recordObservations,
} from '../../store/supervision/machine-inspections.ts';
import { createInspector, type Inspection, type InspectionResult } from '../runner/inspector.ts';
import type { SweepServices } from '../runner/services.ts';

/** A fleet with more machines takes several passes for one round. */
const maxPerPass = 1000;
const batch = 200;
/** How often a driver that does not answer is reported. */
const reportAgainMs = 3_600_000;

const disagreementOn = ({ machine, seen }: Inspection, node: JudgedNode, now: Date): Disagreement => ({
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
 * Whether an observation is recorded: for a quarantined node always, otherwise only if the machine
 * disappeared or appeared again. One fact per inspection would bury the useful ones.
 */
const isWorthRecording = ({ seen }: Inspection, node: JudgedNode): boolean =>
  node.status === 'quarantined' ||
  (seen.present ? node.observed_state === 'absent' : node.observed_state !== seen.state);

export function createMachineComparison(services: SweepServices): (now: Date) => Promise<void> {
  const { db, clock, environment, drivers } = services;
  const inspect = createInspector(services);
  const reportedAtMs = new Map<string, number>();
  let cursor = '';

  const record = async (inspections: readonly Inspection[], passStart: Date, now: Date) => {
    const relevant = new Map<string, Inspection>();
    const nodesWithFinding = new Set(
      (
        await standingFindings(
          db,
          ['machine_absent'],
          inspections.map(({ machine }) => machine.node_id),
        )
      ).map(({ subject }) => subject),
    );
    for (const inspection of inspections) {
      const { node_id, status } = inspection.machine;
      if (!inspection.seen.present || status === 'quarantined' || nodesWithFinding.has(node_id))
        relevant.set(node_id, inspection);
    }
    if (relevant.size > 0)
      await db.transaction(async (tx) => {
        const nodes = await lockUnchanged(
          tx,
          [...relevant.values()].map(({ machine }) => machine),
        );
        const pairs = nodes.flatMap((node) => {
          const inspection = relevant.get(node.node_id);
          return inspection ? [{ node, inspection }] : [];
        });
        const worthRecording = pairs.filter(({ node, inspection }) => isWorthRecording(inspection, node));
        await recordObservations(
          tx,
          worthRecording.map(({ node, inspection }) => ({ node, state: inspection.seen.state })),
          now,
        );
        const absent = pairs.filter(({ inspection }) => !inspection.seen.present);
        const removedByUs = await findProvenAbsent(
          tx,
          absent.map(({ inspection }) => inspection.machine.node_instance_id),
        );
        const missing = absent.filter(({ inspection }) => !removedByUs.has(inspection.machine.node_instance_id));
        const disagreements = missing.map(({ node, inspection }) => ({
          finding_id: newFindingId(clock),
          ...disagreementOn(inspection, node, now),
        }));
        await noteDisagreements(tx, disagreements, passStart, now, environment.decide.isConfirmed);
        const present = pairs.filter(({ inspection }) => inspection.seen.present).map(({ node }) => node.node_id);
        const outdated = present.length === 0 ? [] : await standingFindings(tx, ['machine_absent'], present);
        await endFindings(tx, outdated, 'its provider shows the machine again', now);
      });
    await recordInspections(
      db,
      inspections.map(({ machine }) => machine.node_id),
      now,
    );
  };

  /**
   * A driver that does not answer causes no verdict on its machines; only the driver is reported.
   */
  const reportUnanswered = async ({ unanswered }: InspectionResult, now: Date) => {
    for (const [driver, { machines, because }] of unanswered) {
      const nowMs = clock.monotonicMs();
      if (nowMs - (reportedAtMs.get(driver) ?? Number.NEGATIVE_INFINITY) < reportAgainMs) continue;
      reportedAtMs.set(driver, nowMs);
      const summary = `the driver ${driver} could not be asked about ${machines} machines: ${because}`;
      await recordEvidence(db, [
        { at: now, layer: 'provider', kind: 'driver.unanswered', summary, data: { driver, machines, because } },
      ]);
    }
  };

  return async (now) => {
    const { every_seconds, parked_seconds } = environment.drift;
    // Passes of several replicas within half an interval count as one.
    const passStart = secondsLater(now, -every_seconds / 2);
    const query = {
      drivers: [...drivers.values()].filter(({ launches }) => launches).map(({ name }) => name),
      inspected_before: passStart,
      // One pass early, so that the time between two inspections never exceeds `parked_seconds`.
      quarantined_inspected_before: secondsLater(now, every_seconds - parked_seconds),
    };
    const obsolete = await findObsoleteFindings(db, batch);
    if (obsolete.length > 0)
      await db.transaction((tx) => endFindings(tx, obsolete, 'the machine is not expected any more', now));
    const inspectAndRecord = async (machines: ExpectedMachine[]) => {
      const result = await inspect(machines);
      await record(result.inspections, passStart, now);
      await reportUnanswered(result, now);
    };
    await inspectAndRecord(await findMachinesWithFinding(db, query, batch));
    for (let remaining = maxPerPass; remaining > 0; remaining -= batch) {
      const machines = await findMachinesToInspect(db, query, cursor, batch);
      await inspectAndRecord(machines);
      const last = machines.at(-1);
      cursor = machines.length === batch && last ? last.node_id : '';
      if (cursor === '') break;
    }
    if (cursor === '') await deleteOldInspections(db, secondsLater(now, -2 * Math.max(parked_seconds, every_seconds)));
  };
}
