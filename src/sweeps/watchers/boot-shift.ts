/**
 * `boot-shift`: opens a finding when the boots of a pool have become slower, before they exceed
 * their budget and fail. Decides nothing.
 */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { findShift, type Shift } from '../../lifecycle/boots/boot-shift.ts';
import { buildShiftSides, type ComparedBoot } from '../../lifecycle/boots/shift-finding.ts';
import {
  type BootedPool,
  bootSubject,
  listBootedPools,
  readBootsToCompare,
  readStagesOfBoots,
} from '../../store/boots/boot-shifts.ts';
import {
  type Disagreement,
  endFindings,
  type FindingRow,
  noteDisagreements,
  standingFindings,
} from '../../store/rows/findings.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { handleEach } from '../runner/handle-each.ts';
import { restBetweenPasses } from '../runner/rest-between-passes.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** One pass is enough, because a finding is based on many boots. */
const isConfirmed = () => true;
/** How many pools are read with one query. */
const batch = 20;
/** The sweep runs at most this share of the time, however many pools it has to read. */
const maxShareOfTime = 0.05;
/** A finding is updated when it has this many times as many slow boots, or its budget changed. */
const updateFactor = 1.25;
/** How many boots before and after the shift are compared by stage. */
const maxStagedBoots = 200;

interface EndedFinding {
  finding: FindingRow;
  reason: string;
}

interface Changes {
  disagreements: Disagreement[];
  ended: EndedFinding[];
}

const needsUpdate = ({ ours, theirs }: FindingRow, { slower }: Shift<ComparedBoot>, budget_seconds: number): boolean =>
  slower.length >= updateFactor * Number(theirs.boots) || ours.budget_seconds !== budget_seconds;

const sinceOf = ({ theirs }: FindingRow): Date => moment(Date.parse(String(theirs.since)));

export const bootShift = ({ db, clock, environment }: SweepServices): Sweep => {
  let lastRunAt: Date | null = null;

  const isUsual = (finding: FindingRow, now: Date) =>
    secondsBetween(sinceOf(finding), now) >= environment.boot_shift.usual_after_seconds;

  const endReason = (finding: FindingRow, now: Date): string =>
    isUsual(finding, now)
      ? `this pace has lasted ${Math.round(environment.boot_shift.usual_after_seconds / 86_400)} days and is now the usual one`
      : 'boots are as fast as before again';

  async function describe(booted: BootedPool, shift: Shift<ComparedBoot>): Promise<Disagreement> {
    const near = [...shift.former.slice(-maxStagedBoots), ...shift.slower.slice(-maxStagedBoots)];
    const stages = await readStagesOfBoots(
      db,
      near.map(({ node_instance_id }) => node_instance_id),
    );
    const budget = budgetOf(booted.phase, booted.document, environment, null);
    const { ours, theirs } = buildShiftSides(shift, stages, booted.phase, budget);
    return {
      what: 'boots_slower',
      subject: bootSubject(booted),
      pool: booted.pool,
      node_id: null,
      node_instance_id: null,
      allocation_id: null,
      ours: { ...ours },
      theirs: { ...theirs },
    };
  }

  async function judge(booted: BootedPool, all: ComparedBoot[], known: FindingRow | undefined, now: Date) {
    const isAccepted = known?.status === 'accepted';
    // Accepting a finding makes its pace the usual one, so only boots since its shift are compared.
    const boots = known && isAccepted ? all.filter(({ started_at }) => started_at >= sinceOf(known)) : all;
    const budget = budgetOf(booted.phase, booted.document, environment, null);
    const hasOpenFinding = known !== undefined && !isAccepted;
    const shift = findShift(boots, {
      now,
      budget_seconds: budget.seconds,
      settings: environment.boot_shift,
      is_known: hasOpenFinding,
    });
    const changes: Changes = { disagreements: [], ended: [] };
    if (!shift) {
      if (known && (!isAccepted || isUsual(known, now)))
        changes.ended.push({ finding: known, reason: endReason(known, now) });
      return changes;
    }
    if (known && isAccepted) changes.ended.push({ finding: known, reason: 'boots have become slower again' });
    if (!hasOpenFinding || needsUpdate(known, shift, budget.seconds))
      changes.disagreements.push(await describe(booted, shift));
    return changes;
  }

  async function write({ disagreements, ended }: Changes, now: Date): Promise<number> {
    if (disagreements.length === 0 && ended.length === 0) return 0;
    return db.transaction(async (tx) => {
      for (const { finding, reason } of ended) await endFindings(tx, [finding], reason, now);
      const findings = disagreements.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      return (await noteDisagreements(tx, findings, now, now, isConfirmed)).length;
    });
  }

  const run = async (now: Date) => {
    const standing = new Map((await standingFindings(db, ['boots_slower'])).map((each) => [each.subject, each]));
    // Overlap with the last run: a slow transaction may have committed an earlier time since. After
    // the clock was set back, read all pools.
    const since = lastRunAt && lastRunAt <= now ? secondsLater(lastRunAt, -environment.boot_shift.every_seconds) : null;
    const booted = await listBootedPools(db, since, [...standing.keys()]);
    const subjects = new Set(booted.map(bootSubject));
    const failures: string[] = [];
    const changes: Changes = {
      disagreements: [],
      ended: [...standing.values()]
        .filter(({ subject }) => !subjects.has(subject))
        .map((finding) => ({ finding, reason: 'the pool was deleted' })),
    };
    for (let from = 0; from < booted.length; from += batch) {
      const pools = booted.slice(from, from + batch);
      const boots = await readBootsToCompare(db, pools, now);
      const failed = await handleEach(pools, bootSubject, async (pool) => {
        const key = bootSubject(pool);
        const { disagreements, ended } = await judge(pool, boots.get(key) ?? [], standing.get(key), now);
        changes.disagreements.push(...disagreements);
        changes.ended.push(...ended);
      });
      failures.push(...failed);
    }
    const decided = await write(changes, now);
    if (failures.length > 0) throw new Error(`boots that could not be compared: ${failures.join('; ')}`);
    // Set only after everything is written; otherwise a failed pool without new boots would not be
    // read again.
    lastRunAt = now;
    return { decided };
  };

  return {
    name: 'boot-shift',
    get every_seconds() {
      return environment.boot_shift.every_seconds;
    },
    isWokenBy: (kind) => kind === 'pool.declared' || kind === 'pool.deleted',
    run: restBetweenPasses(clock, maxShareOfTime, run),
  };
};
