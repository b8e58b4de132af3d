/** Plans the cases: every step of every operation, with every fault that it can have. */
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { type Case, type EndedCase, runCases } from './cases.ts';
import { canHaveFault, faultNames, type SeenStep } from './faults.ts';
import { type Request, requests, type Site, situations } from './situations.ts';

/** Long enough to reach every situation. */
const scoutTicks = 60;

/** Whether a request is allowed, found by a dry run. */
const isOpen = (request: Request, site: Site) =>
  request.send(site, { dry_run: true }).catch((error) => {
    if (error instanceof ApiProblem) return false;
    throw error;
  });

/**
 * Every situation with every request that is open in it, found by a dry run in each. The pairs are
 * in the order of the tables, which decides where a step is seen first.
 */
export async function everyPair(): Promise<Case[]> {
  const scouts = situations.map((situation) => {
    const open: Case[] = [];
    const tryAll: Request['send'] = async (site) => {
      for (const request of requests) if (await isOpen(request, site)) open.push({ situation, request });
      return true;
    };
    return { situation, request: { name: 'dry run of all requests', send: tryAll }, open };
  });
  await runCases(scouts, { max_ticks: scoutTicks });
  return scouts.flatMap(({ open }) => open);
}

/** An interrupted step is seen again. A wait counts once with and once without a value. */
const distinct = (seen: SeenStep[]): SeenStep[] => [
  ...new Map(seen.map((each) => [`${each.step} ${each.wait?.answered}`, each])).values(),
];

/** A step that repeats as time passes: only the first two runs are tried. */
const isFurtherRound = ({ step }: SeenStep) => Number(/#(\d+)$/.exec(step)?.[1] ?? 1) > 2;

/** Steps that all stages, or all runs of the engine, have in common: one of each is tried. */
const bookkeeping = /:(begin|end)$|^engine:.*/;

const keyOf = (kind: string, { step, wait }: SeenStep) => {
  const [same] = bookkeeping.exec(step) ?? [];
  return same ?? `${kind} ${step} ${wait?.answered}`;
};

/** Each step is tried in the case and the run where it was seen first. */
export function everyFault(faultless: readonly EndedCase[]): Case[] {
  const tried = new Set<string>();
  const cases: Case[] = [];
  for (const { situation, request, runs } of faultless)
    for (const { kind, ordinal, seen } of runs)
      for (const each of distinct(seen)) {
        if (isFurtherRound(each)) continue;
        const key = keyOf(kind, each);
        if (tried.has(key)) continue;
        tried.add(key);
        for (const fault of faultNames)
          if (canHaveFault(each, fault))
            cases.push({ situation, request, target: { kind, ordinal, seen: each, fault } });
      }
  return cases;
}

const nameOf = ({ situation, request, target }: Case) =>
  `${target ? `${target.kind}, step ${target.seen.step}, ${target.fault}` : 'without a fault'} (${situation.name}, request: ${request.name})`;

const shown = ({ nodes, allocations, launches, changes }: EndedCase) =>
  JSON.stringify({ nodes, allocations, launches, changes }, null, 1);

/** A crash or a repetition must not change the outcome, the launches or any transition. */
const mustNotMatter = ({ target }: Case) => target !== undefined && target.fault !== 'fails until its retries end';

/** Returns the problems of a case as texts. */
export function judge(faultless: readonly EndedCase[], tried: readonly EndedCase[]): string[] {
  const usual = new Map(faultless.map((each) => [`${each.situation.name} / ${each.request.name}`, each]));
  return tried.flatMap((each) => {
    const wrong = [...each.mistakes];
    if (each.target && !each.reached && !each.refused) wrong.push('the step was never reached');
    if (each.target && each.refused) wrong.push('the request is refused now');
    const expected = usual.get(`${each.situation.name} / ${each.request.name}`);
    if (expected && mustNotMatter(each) && shown(each) !== shown(expected))
      wrong.push(`ended differently:\n${shown(each)}\nwithout the fault:\n${shown(expected)}`);
    return wrong.length > 0 ? [`${nameOf(each)}:\n  ${wrong.join('\n  ')}`] : [];
  });
}
