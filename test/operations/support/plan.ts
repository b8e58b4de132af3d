/** Plans the cases, which give every step of every operation every fault that the step can have. */
import { ApiProblem } from '../../../src/contract/errors/errors.ts';
import { type Case, type EndedCase, runCases } from './cases.ts';
import { canHaveFault, faultNames, type StepRecord } from './faults.ts';
import { type CasePool, type Request, requests, situations } from './situations.ts';

/** Enough ticks to reach every situation. */
const dryRunTicks = 60;

/** Finds out by a dry run whether a request is allowed. */
const isAllowed = (request: Request, casePool: CasePool) =>
  request.send(casePool, { dry_run: true }).catch((error) => {
    if (error instanceof ApiProblem) return false;
    throw error;
  });

/**
 * Finds every pair of a situation and a request that is allowed in it. The pairs keep the order of
 * the tables, which decides in which case a step is recorded first.
 */
export async function findAllowedCases(): Promise<Case[]> {
  const dryRuns = situations.map((situation) => {
    const allowedCases: Case[] = [];
    const tryAll: Request['send'] = async (casePool) => {
      for (const request of requests) if (await isAllowed(request, casePool)) allowedCases.push({ situation, request });
      return true;
    };
    return { situation, request: { name: 'dry run of all requests', send: tryAll }, allowedCases };
  });
  await runCases(dryRuns, { max_ticks: dryRunTicks });
  return dryRuns.flatMap(({ allowedCases }) => allowedCases);
}

/** Removes repeated records of a step. A wait with a value and one without are different steps. */
const dedupe = (records: StepRecord[]): StepRecord[] => [
  ...new Map(records.map((record) => [`${record.step} ${record.wait?.answered}`, record])).values(),
];

/** Of a step that an operation repeats while it waits, only the first two runs are tried. */
const isThirdOrLaterRun = ({ step }: StepRecord) => Number(/#(\d+)$/.exec(step)?.[1] ?? 1) > 2;

/** All stages, or all runs of the engine, have these steps in common, so one of each is tried. */
const bookkeeping = /:(begin|end)$|^engine:.*/;

const keyOf = (kind: string, { step, wait }: StepRecord) => {
  const [sharedStep] = bookkeeping.exec(step) ?? [];
  return sharedStep ?? `${kind} ${step} ${wait?.answered}`;
};

/** Tries each step in the case and the run in which the step was recorded first. */
export function planFaults(faultFreeCases: readonly EndedCase[]): Case[] {
  const triedSteps = new Set<string>();
  const cases: Case[] = [];
  for (const { situation, request, runs } of faultFreeCases)
    for (const { kind, ordinal, records } of runs)
      for (const record of dedupe(records)) {
        if (isThirdOrLaterRun(record)) continue;
        const key = keyOf(kind, record);
        if (triedSteps.has(key)) continue;
        triedSteps.add(key);
        for (const fault of faultNames)
          if (canHaveFault(record, fault)) cases.push({ situation, request, target: { kind, ordinal, record, fault } });
      }
  return cases;
}

const pairOf = ({ situation, request }: Case) => `${situation.name} / ${request.name}`;

const nameOf = ({ situation, request, target }: Case) =>
  `${target ? `${target.kind}, step ${target.record.step}, ${target.fault}` : 'without a fault'} (${situation.name}, request: ${request.name})`;

const describeOutcome = ({ nodes, allocations, launches, eventCounts }: EndedCase) =>
  JSON.stringify({ nodes, allocations, launches, eventCounts }, null, 1);

/** A crash or a repetition must not change the final statuses, the launches or any transition. */
const mustEndEqually = ({ target }: Case) => target !== undefined && target.fault !== 'failures until the retries end';

/** Describes the problems of all cases. */
export function findProblems(faultFreeCases: readonly EndedCase[], cases: readonly EndedCase[]): string[] {
  const expectedCases = new Map(faultFreeCases.map((ended) => [pairOf(ended), ended]));
  return cases.flatMap((ended) => {
    const problems = [...ended.problems];
    if (ended.target && !ended.faultHappened && !ended.refused) problems.push('the step was never reached');
    if (ended.target && ended.refused) problems.push('the request was refused, but not without the fault');
    const expected = expectedCases.get(pairOf(ended));
    if (expected && mustEndEqually(ended) && describeOutcome(ended) !== describeOutcome(expected))
      problems.push(
        `the outcome differs:\n${describeOutcome(ended)}\nwithout the fault:\n${describeOutcome(expected)}`,
      );
    return problems.length > 0 ? [`${nameOf(ended)}:\n  ${problems.join('\n  ')}`] : [];
  });
}
