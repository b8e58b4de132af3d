/**
 * `orphans`: asks each driver for the resources with our tags. Resources without a live owner in
 * two passes are recorded as residue and verified until they are gone. Destroys nothing. A
 * host-bound driver sees only its own host, so a replica does not judge resources on other hosts.
 */

import { type Clock, now as present, secondsLater } from '../../base/clock.ts';
import type { Driver, DriverProof } from '../../drivers/driver.ts';
import { lookForProof, type ProofResult, proofSummary } from '../../operations/release/proof.ts';
import { retireProvenGone } from '../../operations/release/proven-gone.ts';
import { ruleCaller, verifyIn } from '../../operations/residue/residue-requests.ts';
import {
  buildResidueSubject,
  canBeProvenClean,
  canDriverProve,
  onlyAgentMayProve,
  type ResidueSubject,
} from '../../operations/residue/residue-verify.ts';
import { withTimeout } from '../../operations/runtime/bounded-calls.ts';
import { isAgentFresh } from '../../store/agents/instances.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { recordInspection, residueRow, settleResidue } from '../../store/rows/residue.ts';
import {
  addOrphans,
  findResidueToVerify,
  findUnowned,
  type ListedResource,
  markSeen,
  type ResidueWithMachine,
  resourceKey,
} from '../../store/supervision/orphans.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

const listTimeoutSeconds = 60;
const batch = 50;
const maxConcurrent = 5;

const hostOf = (driver: Driver) => (driver.host_bound ? (driver.host_id ?? null) : null);

async function listResources(services: SweepServices, driver: Driver): Promise<ListedResource[]> {
  const listing = driver.list_owned(services.installation.installation_id);
  const owned = await withTimeout(services.clock, listTimeoutSeconds, listing);
  if (!owned) throw new Error(`the driver ${driver.name} did not list its resources within ${listTimeoutSeconds} s`);
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

/** When this replica first saw each unowned resource of each driver. A restart clears it. */
type Sightings = Map<string, Map<string, Date>>;

/** The resources that each driver lists in this pass; drivers that failed to list are missing. */
type ListedNames = Map<string, Set<string>>;

/**
 * Expects `all` to be listed before the owners are read here. A machine's row is written before its
 * tag, so the row of everything listed already exists.
 */
async function findOrphans(
  services: SweepServices,
  { driver, all }: { driver: Driver; all: ListedResource[] },
  sightings: Sightings,
  now: Date,
): Promise<number> {
  const { db, clock, environment } = services;
  await markSeen(db, all, now);
  const unowned = await findUnowned(db, all);
  const suspects = all.filter((each) => unowned.has(resourceKey(each)));
  const former = sightings.get(driver.name);
  const firstSeen = new Map([...unowned].map((key) => [key, former?.get(key) ?? now]));
  sightings.set(driver.name, firstSeen);
  const orphans = suspects.filter((each) =>
    environment.decide.isOrphaned(firstSeen.get(resourceKey(each)) ?? now, now, environment.orphans),
  );
  return db.transaction((tx) => addOrphans(tx, orphans, clock));
}

/** Residue without an instance can only be found by name in its driver's list. */
function findInList(row: ResidueWithMachine, listedNames: ListedNames): ProofResult {
  const names = listedNames.get(row.driver);
  if (!names) return { proof: null, why_not: 'the driver could not list its resources' };
  return names.has(row.resource) ? { proof: null, why_not: 'the driver lists it' } : { proof: notListed };
}

const notListed: DriverProof = {
  kind: 'absent',
  nonce: '',
  checked: [{ what: 'what the driver lists under our tags', seen: 'nothing of that name' }],
};

async function checkResidue(clock: Clock, residue: ResidueSubject, listedNames: ListedNames): Promise<ProofResult> {
  if (!residue.machine) return findInList(residue.row, listedNames);
  return canDriverProve(residue) ? lookForProof(clock, residue.machine) : { proof: null, why_not: onlyAgentMayProve };
}

async function verify(services: SweepServices, row: ResidueWithMachine, listedNames: ListedNames): Promise<boolean> {
  const { db, clock } = services;
  const residue = buildResidueSubject(services, row);
  const { node_id, node_instance_id, residue_id, present_instance_id } = row;
  const check = await checkResidue(clock, residue, listedNames);
  const at = present(clock);
  // Only the machine's own agent can prove the machine clean. An operation asks the agent, because
  // an operation can wait for the answer.
  const shouldAskAgent =
    !check.proof &&
    present_instance_id !== null &&
    canBeProvenClean(residue) &&
    (await isAgentFresh(db, present_instance_id, at));
  return db.transaction(async (tx) => {
    // All code locks the node before its residue, so this cannot deadlock.
    if (check.proof && node_id) await lockNode(tx, node_id);
    const current = await residueRow(tx, residue_id, 'for update');
    // An action was requested meanwhile, and its operation decides.
    if (current?.status !== 'open' || current.workflow_id !== row.workflow_id) return false;
    if (check.proof) {
      const proven = { status: 'gone' as const, seen: proofSummary(check.proof), proof: { ...check.proof } };
      const filter = node_instance_id ? { node_instance_id } : { residue_id };
      const goneNode = { node_id, node_instance_id, proof: check.proof.kind, reason: 'proven gone' };
      await retireProvenGone(tx, services, { ...goneNode, workflow_id: null }, at);
      return (await settleResidue(tx, filter, proven, { layer: 'rule' }, at)).length > 0;
    }
    await recordInspection(tx, residue_id, check.why_not, { layer: 'rule' }, at);
    if (shouldAskAgent) await verifyIn(tx, services, residue_id, ruleCaller('residue is verified until it is gone'));
    return false;
  });
}

/** A failure with one row does not stop the others. */
async function verifyOpen(services: SweepServices, listedNames: ListedNames, now: Date, failures: unknown[]) {
  const scopes = [...services.drivers.values()].map((driver) => ({ driver: driver.name, host: hostOf(driver) }));
  const not_since = secondsLater(now, -services.environment.orphans.every_seconds / 2);
  const due = await findResidueToVerify(services.db, scopes, not_since, batch);
  let gone = 0;
  for (let from = 0; from < due.length; from += maxConcurrent) {
    const results = await Promise.allSettled(
      due.slice(from, from + maxConcurrent).map((row) => verify(services, row, listedNames)),
    );
    for (const result of results) {
      if (result.status === 'rejected') failures.push(result.reason);
      else if (result.value) gone++;
    }
  }
  // The rows of a failure are still due, so asking for more would retry them at once.
  return { gone, more: due.length === batch && failures.length === 0 };
}

export function orphans(services: SweepServices): Sweep {
  const sightings: Sightings = new Map();
  return {
    name: 'orphans',
    get every_seconds() {
      return services.environment.orphans.every_seconds;
    },
    async run(now) {
      let found = 0;
      const failures: unknown[] = [];
      const listedNames: ListedNames = new Map();
      for (const driver of services.drivers.values()) {
        try {
          const all = await listResources(services, driver);
          listedNames.set(driver.name, new Set(all.map(({ resource }) => resource)));
          found += await findOrphans(services, { driver, all }, sightings, now);
        } catch (error) {
          failures.push(error);
        }
      }
      const { gone, more } = await verifyOpen(services, listedNames, now, failures);
      // The first failure is reported only now, so that it does not stop the other drivers.
      if (failures.length > 0) throw failures[0];
      return { decided: found + gone, more };
    },
  };
}
