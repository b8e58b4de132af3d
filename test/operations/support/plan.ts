/** From what undisturbed runs showed to what is tried: every step of every operation, with every fault that can befall it. */
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { type Case, type EndedCase, runCases } from './cases.ts';
import { canBefall, faultNames, type SeenStep } from './faults.ts';
import { type Ask, asks, type Site, situations } from './situations.ts';

/** Long enough for every situation to come about; what becomes of it then is not the scouts' concern. */
const scoutTicks = 60;

/** Whether it is open there; nothing is changed by asking so. */
const isOpen = (ask: Ask, site: Site) =>
  ask.ask(site, { dry_run: true }).catch((error) => {
    if (error instanceof ApiProblem) return false;
    throw error;
  });

/**
 * Every situation with everything that is open in it: one scout goes to each and asks without meaning it. The pairs stand in
 * the order of the tables, in whatever order the scouts come back: it decides where a step is seen first.
 */
export async function everyPair(): Promise<Case[]> {
  const scouts = situations.map((situation) => {
    const open: Case[] = [];
    const look: Ask['ask'] = async (site) => {
      for (const ask of asks) if (await isOpen(ask, site)) open.push({ situation, ask });
      return true;
    };
    return { situation, ask: { name: 'only looks', ask: look }, open };
  });
  await runCases(scouts, { most_ticks: scoutTicks });
  return scouts.flatMap(({ open }) => open);
}

/** A step that was cut off is seen again; of a wait it matters whether it was ever answered. */
const distinct = (seen: SeenStep[]): SeenStep[] => [
  ...new Map(seen.map((each) => [`${each.step} ${each.wait?.answered}`, each])).values(),
];

/** A step that is taken round after round, as often as time passes: the first two stand for all. */
const isFurtherRound = ({ step }: SeenStep) => Number(/#(\d+)$/.exec(step)?.[1] ?? 1) > 2;

/** Every stage of every operation begins and ends by the same two steps, and every run by the engine's own: one of each stands for all. */
const bookkeeping = /:(begin|end)$|^engine:.*/;

const keyOf = (kind: string, { step, wait }: SeenStep) => {
  const [same] = bookkeeping.exec(step) ?? [];
  return same ?? `${kind} ${step} ${wait?.answered}`;
};

/** Each step is tried where it was seen first: in that situation, by that ask, in that run. */
export function everyFault(undisturbed: readonly EndedCase[]): Case[] {
  const tried = new Set<string>();
  const cases: Case[] = [];
  for (const { situation, ask, runs } of undisturbed)
    for (const { kind, ordinal, seen } of runs)
      for (const each of distinct(seen)) {
        if (isFurtherRound(each)) continue;
        const key = keyOf(kind, each);
        if (tried.has(key)) continue;
        tried.add(key);
        for (const fault of faultNames)
          if (canBefall(each, fault)) cases.push({ situation, ask, target: { kind, ordinal, seen: each, fault } });
      }
  return cases;
}

const nameOf = ({ situation, ask, target }: Case) =>
  `${target ? `${target.kind}, step ${target.seen.step}, ${target.fault}` : 'undisturbed'} (${situation.name}, ask: ${ask.name})`;

const shown = ({ nodes, allocations, launches, changes }: EndedCase) =>
  JSON.stringify({ nodes, allocations, launches, changes }, null, 1);

/** A fault that leaves nothing to be wanted changes nothing: neither how it ends, nor what is launched, nor any change on the way. */
const changesNothing = ({ target }: Case) => target !== undefined && target.fault !== 'fails until its retries end';

/** What is wrong, in words; empty where all is as it must be. */
export function judge(undisturbed: readonly EndedCase[], tried: readonly EndedCase[]): string[] {
  const usual = new Map(undisturbed.map((each) => [`${each.situation.name} / ${each.ask.name}`, each]));
  return tried.flatMap((each) => {
    const wrong = [...each.mistakes];
    if (each.target && !each.reached && !each.refused) wrong.push('the step was never reached');
    if (each.target && each.refused) wrong.push('what was asked for before is refused now');
    const expected = usual.get(`${each.situation.name} / ${each.ask.name}`);
    if (expected && changesNothing(each) && shown(each) !== shown(expected))
      wrong.push(`ended otherwise:\n${shown(each)}\nundisturbed:\n${shown(expected)}`);
    return wrong.length > 0 ? [`${nameOf(each)}:\n  ${wrong.join('\n  ')}`] : [];
  });
}
