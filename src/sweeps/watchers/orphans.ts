/**
 * `orphans`: asks each driver what it holds of ours. Resources seen in two passes without a live
 * owner go on the residue ledger and are verified until gone. Destroys nothing. A host-bound driver
 * sees only its own host, so a replica does not judge other hosts.
 */

import { type Clock, now as present, secondsLater } from '../../base/clock.ts';
import type { Driver, DriverProof } from '../../drivers/driver.ts';
import { lookForProof, type ProofResult, proofSummary } from '../../operations/release/proof.ts';
import { retireProvenGone } from '../../operations/release/proven-gone.ts';
import { byRule, verifyIn } from '../../operations/residue/residue-requests.ts';
import {
  driverMayProve,
  mayBeProvenClean,
  onlyAgentMayProve,
  type ResidueSubject,
  residueSubject,
} from '../../operations/residue/residue-verify.ts';
import { withTimeout } from '../../operations/runtime/bounded-calls.ts';
import { isAgentFresh } from '../../store/agents/instances.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { recordInspection, residueRow, settleResidue } from '../../store/rows/residue.ts';
import {
  addOrphans,
  type Listed,
  markSeen,
  type ResidueWithMachine,
  residueToVerify,
  unownedAmong,
} from '../../store/supervision/orphans.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const listedWithinSeconds = 60;
const batch = 50;
const atOnce = 5;

const hostOf = (driver: Driver) => (driver.host_bound ? (driver.host_id ?? null) : null);

async function listOf(services: SweepServices, driver: Driver): Promise<Listed[]> {
  const listing = driver.list_owned(services.installation.installation_id);
  const owned = await withTimeout(services.clock, listedWithinSeconds, listing);
  if (!owned) throw new Error(`the driver ${driver.name} did not list what it holds within ${listedWithinSeconds} s`);
  return owned.map(({ kind, resource, node_id, node_instance_id, cost_per_hour }) => ({
    driver: driver.name,
    host: hostOf(driver),
    kind,
    resource,
    node_id,
    node_instance_id,
    cost_per_hour: cost_per_hour ?? null,
  }));
}

/**
 * When this replica first saw each unowned resource. A restart forgets it, which costs one more
 * pass.
 */
type Sightings = Map<string, Date>;

/** The names that each reachable driver lists in this pass. */
type Shown = Map<string, Set<string>>;

const keyOf = ({ driver, resource, node_instance_id }: Listed) => `${driver} ${node_instance_id} ${resource}`;

/**
 * List before reading owners: a machine's row is written before its tag, so everything listed has
 * its row.
 */
async function findOrphans(
  services: SweepServices,
  { driver, all }: { driver: Driver; all: Listed[] },
  sightings: Sightings,
  now: Date,
): Promise<number> {
  const { db, clock, environment } = services;
  await markSeen(db, all, now);
  const unowned = await unownedAmong(db, all);
  const suspects = all.filter((each) => unowned.has(each.resource));
  const keys = new Set(suspects.map(keyOf));
  for (const key of sightings.keys()) if (key.startsWith(`${driver.name} `) && !keys.has(key)) sightings.delete(key);
  const orphans = suspects.filter((each) => {
    const first = sightings.get(keyOf(each)) ?? now;
    sightings.set(keyOf(each), first);
    return environment.decide.isOrphaned(first, now, environment.orphans);
  });
  return db.transaction((tx) => addOrphans(tx, orphans, clock));
}

/** Residue without an instance can only be found by name in its driver's list. */
function lookInList(row: ResidueWithMachine, shown: Shown): ProofResult {
  const names = shown.get(row.driver);
  if (!names) return { proof: null, why_not: 'the driver could not list what it holds' };
  return names.has(row.resource) ? { proof: null, why_not: 'the driver lists it' } : { proof: notListed };
}

const notListed: DriverProof = {
  kind: 'absent',
  nonce: '',
  checked: [{ what: 'what the driver lists under our tags', seen: 'nothing of that name' }],
};

async function look(clock: Clock, residue: ResidueSubject, shown: Shown): Promise<ProofResult> {
  if (!residue.machine) return lookInList(residue.row, shown);
  return driverMayProve(residue) ? lookForProof(clock, residue.machine) : { proof: null, why_not: onlyAgentMayProve };
}

async function verify(services: SweepServices, row: ResidueWithMachine, shown: Shown): Promise<boolean> {
  const { db, clock } = services;
  const residue = residueSubject(services, row);
  const { node_id, node_instance_id, residue_id, present_instance_id } = row;
  const looked = await look(clock, residue, shown);
  const at = present(clock);
  // Only the machine's own agent can prove it clean; an operation asks it and can wait.
  const asksAgent =
    !looked.proof &&
    present_instance_id !== null &&
    mayBeProvenClean(residue) &&
    (await isAgentFresh(db, present_instance_id, at));
  return db.transaction(async (tx) => {
    // Nodes are locked before residue, as everywhere.
    if (looked.proof && node_id) await lockNode(tx, node_id);
    const still = await residueRow(tx, residue_id, 'for update');
    // Someone requested an action meanwhile; its operation decides.
    if (still?.status !== 'open' || still.workflow_id !== row.workflow_id) return false;
    if (looked.proof) {
      const proven = { status: 'gone' as const, seen: proofSummary(looked.proof), proof: { ...looked.proof } };
      const which = node_instance_id ? { node_instance_id } : { residue_id };
      const gone = { node_id, node_instance_id, proof: looked.proof.kind, reason: 'proven gone' };
      await retireProvenGone(tx, services, { ...gone, workflow_id: null }, at);
      return (await settleResidue(tx, which, proven, { layer: 'rule' }, at)).length > 0;
    }
    await recordInspection(tx, residue_id, looked.why_not, { layer: 'rule' }, at);
    if (asksAgent) await verifyIn(tx, services, residue_id, byRule('it is verified until it is gone'));
    return false;
  });
}

/** A failure with one row does not stop the others. */
async function verifyOpen(services: SweepServices, shown: Shown, now: Date, failures: unknown[]) {
  const eyes = [...services.drivers.values()].map((driver) => ({ driver: driver.name, host: hostOf(driver) }));
  const not_since = secondsLater(now, -services.environment.orphans.every_seconds / 2);
  const due = await residueToVerify(services.db, eyes, not_since, batch);
  let gone = 0;
  for (let from = 0; from < due.length; from += atOnce) {
    const some = await Promise.allSettled(due.slice(from, from + atOnce).map((row) => verify(services, row, shown)));
    for (const each of some) {
      if (each.status === 'rejected') failures.push(each.reason);
      else if (each.value) gone++;
    }
  }
  // After a failure the same rows would be due again at once.
  return { gone, more: due.length === batch && failures.length === 0 };
}

export function orphans(services: SweepServices): Sweep {
  const sightings: Sightings = new Map();
  return {
    name: 'orphans',
    every_seconds: services.environment.orphans.every_seconds,
    async run(now) {
      let found = 0;
      const failures: unknown[] = [];
      const shown: Shown = new Map();
      for (const driver of services.drivers.values()) {
        try {
          const all = await listOf(services, driver);
          shown.set(driver.name, new Set(all.map(({ resource }) => resource)));
          found += await findOrphans(services, { driver, all }, sightings, now);
        } catch (error) {
          failures.push(error);
        }
      }
      const { gone, more } = await verifyOpen(services, shown, now, failures);
      // Failures did not stop the rest, but the sweep reports them.
      if (failures.length > 0) throw failures[0];
      return { decided: found + gone, more };
    },
  };
}
