/**
 * `boot-shift`: opens a finding when the boots of a pool have become slower, before its budget
 * fails them. Decides nothing.
 */
import { moment, secondsBetween, secondsLater } from '../../base/clock.ts';
import { newFindingId } from '../../base/ids.ts';
import { findShift, type Shift } from '../../lifecycle/boots/boot-shift.ts';
import { type RecordedBoot, shiftSides } from '../../lifecycle/boots/shift-finding.ts';
import {
  type BootedPool,
  bootedPools,
  bootSubject,
  bootsToCompare,
  stagesOfBoots,
} from '../../store/boots/boot-shifts.ts';
import {
  type Disagreement,
  endFindings,
  type FindingRow,
  noteDisagreements,
  standingFindings,
} from '../../store/rows/findings.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import { eachAlone } from '../runner/each-alone.ts';
import { resting } from '../runner/resting.ts';
import type { SweepServices } from '../runner/services.ts';
import type { Sweep } from '../runner/sweep.ts';

/** The finding rests on many boots and needs no second pass. */
const isConfirmed = () => true;
/** Pools read at once. */
const batch = 20;
/** The largest share of the time spent looking while boots keep ending. */
const maxShareOfTime = 0.05;
/** A finding is reported again when its boots have grown by this factor, or its budget changed. */
const worthTellingAgain = 1.25;
/** Enough boots on either side to judge a stage. */
const stagedBoots = 200;

interface Ended {
  finding: FindingRow;
  reason: string;
}

interface Looked {
  found: Disagreement[];
  over: Ended[];
}

const isNews = ({ ours, theirs }: FindingRow, { slower }: Shift<RecordedBoot>, budget_seconds: number): boolean =>
  slower.length >= worthTellingAgain * Number(theirs.boots) || ours.budget_seconds !== budget_seconds;

const sinceOf = ({ theirs }: FindingRow): Date => moment(Date.parse(String(theirs.since)));

export const bootShift = ({ db, clock, environment }: SweepServices): Sweep => {
  const settings = environment.boot_shift;
  let lookedAt: Date | null = null;

  const isUsual = (finding: FindingRow, now: Date) =>
    secondsBetween(sinceOf(finding), now) >= settings.usual_after_seconds;

  const endOf = (finding: FindingRow, now: Date): string =>
    isUsual(finding, now)
      ? `this pace has lasted ${Math.round(settings.usual_after_seconds / 86_400)} days: it is the usual one by now`
      : 'boots take no longer than before by now';

  async function describe(booted: BootedPool, shift: Shift<RecordedBoot>): Promise<Disagreement> {
    const near = [...shift.former.slice(-stagedBoots), ...shift.slower.slice(-stagedBoots)];
    const stages = await stagesOfBoots(
      db,
      near.map(({ node_instance_id }) => node_instance_id),
    );
    const budget = budgetOf(booted.phase, booted.document, environment, null);
    const { ours, theirs } = shiftSides(shift, stages, booted.phase, budget);
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

  async function judge(booted: BootedPool, all: RecordedBoot[], known: FindingRow | undefined, now: Date) {
    const isKnown = known?.status === 'accepted';
    // Accepting a finding makes its pace the usual one: only slower boots since then are new.
    const boots = known && isKnown ? all.filter(({ started_at }) => started_at >= sinceOf(known)) : all;
    const budget = budgetOf(booted.phase, booted.document, environment, null);
    const standing = known !== undefined && !isKnown;
    const shift = findShift(boots, { now, budget_seconds: budget.seconds, settings, standing });
    const looked: Looked = { found: [], over: [] };
    if (!shift) {
      if (known && (!isKnown || isUsual(known, now))) looked.over.push({ finding: known, reason: endOf(known, now) });
      return looked;
    }
    if (known && isKnown) looked.over.push({ finding: known, reason: 'boots have become slower again' });
    if (!standing || isNews(known, shift, budget.seconds)) looked.found.push(await describe(booted, shift));
    return looked;
  }

  async function write(found: readonly Disagreement[], over: readonly Ended[], now: Date): Promise<number> {
    if (found.length === 0 && over.length === 0) return 0;
    return db.transaction(async (tx) => {
      for (const { finding, reason } of over) await endFindings(tx, [finding], reason, now);
      const fresh = found.map((each) => ({ finding_id: newFindingId(clock), ...each }));
      return (await noteDisagreements(tx, fresh, now, now, isConfirmed)).length;
    });
  }

  const look = async (now: Date) => {
    const standing = new Map((await standingFindings(db, ['boots_slower'])).map((each) => [each.subject, each]));
    // Overlap with the last look: a slower transaction may have written an earlier time. Ignore a
    // look from a clock that has jumped back since.
    const since = lookedAt && lookedAt <= now ? secondsLater(lookedAt, -settings.every_seconds) : null;
    const booted = await bootedPools(db, since, [...standing.keys()]);
    const there = new Set(booted.map(bootSubject));
    const found: Disagreement[] = [];
    const failed: string[] = [];
    const over: Ended[] = [...standing.values()]
      .filter(({ subject }) => !there.has(subject))
      .map((finding) => ({ finding, reason: 'the pool was deleted' }));
    for (let at = 0; at < booted.length; at += batch) {
      const some = booted.slice(at, at + batch);
      const boots = await bootsToCompare(db, some, now);
      const stumbled = await eachAlone(some, bootSubject, async (each) => {
        const looked = await judge(each, boots.get(bootSubject(each)) ?? [], standing.get(bootSubject(each)), now);
        found.push(...looked.found);
        over.push(...looked.over);
      });
      failed.push(...stumbled);
    }
    const decided = await write(found, over, now);
    if (failed.length > 0) throw new Error(`boots that could not be compared: ${failed.join('; ')}`);
    // Only after everything is written: pools without new boots would not be read again.
    lookedAt = now;
    return { decided };
  };

  return {
    name: 'boot-shift',
    every_seconds: settings.every_seconds,
    woken_by: (kind) => kind === 'pool.declared' || kind === 'pool.deleted',
    run: resting(clock, maxShareOfTime, look),
  };
};
