/**
 * Shrinks a sequence that broke an invariant: runs all variants with one turn less together, keeps
 * a variant that still breaks the invariant, and repeats. A library would run the variants one by
 * one, which takes longer.
 */
import type { Report } from './report.ts';
import { runSequences } from './run.ts';
import { copyWithIndex, type Round, type Sequence } from './sequences.ts';

export interface Shrunk {
  sequence: Sequence;
  report: Report;
}

const copyCount = 16;

const countTurns = ({ turns }: Sequence) => turns.filter((turn) => turn !== null).length;

const removeTurn = (sequence: Sequence, round: number): Sequence => ({
  ...sequence,
  turns: sequence.turns.map((turn, index) => (index === round ? null : turn)),
});

/**
 * Returns undefined if no copy breaks the invariant: the violation needs a race or other sequences.
 */
export async function shrink(
  original: Sequence,
  schedule: readonly Round[],
  invariant: string,
): Promise<Shrunk | undefined> {
  let smallest: Shrunk | undefined;
  // Start with several copies, because a race may not happen in every copy.
  let variants = Array.from({ length: copyCount }, (_, index) => copyWithIndex(original, index));
  while (variants.length > 0) {
    const report = await runSequences(variants, schedule);
    const violators = new Set(
      report.violations.filter((violation) => violation.invariant === invariant).map(({ sequence }) => sequence),
    );
    const sequence = variants.find(({ index }) => violators.has(index));
    if (!sequence) break;
    smallest = { sequence, report };
    variants = sequence.turns.flatMap((turn, round) => (turn ? [removeTurn(sequence, round)] : [])).map(copyWithIndex);
    if (countTurns(sequence) <= 1) break;
  }
  return smallest;
}
