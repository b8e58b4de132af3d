/**
 * Shrinks a sequence that broke an invariant: runs all variants with one turn less together, keeps
 * one that still breaks it, and repeats. A library would run the variants one by one.
 */
import type { Report } from './report.ts';
import { runSequences } from './run.ts';
import { type Round, renumbered, type Sequence } from './sequences.ts';

export interface Shrunk {
  sequence: Sequence;
  report: Report;
}

const copies = 16;

const turnsOf = ({ turns }: Sequence) => turns.filter((turn) => turn !== null).length;

const withoutTurn = (sequence: Sequence, round: number): Sequence => ({
  ...sequence,
  turns: sequence.turns.map((turn, at) => (at === round ? null : turn)),
});

/** Undefined if it does not happen again: it took a race, or other sequences. */
export async function shrink(
  found: Sequence,
  schedule: readonly Round[],
  invariant: string,
): Promise<Shrunk | undefined> {
  let smallest: Shrunk | undefined;
  // Several copies first: a race does not happen in each.
  let variants = Array.from({ length: copies }, (_, index) => renumbered(found, index));
  while (variants.length > 0) {
    const report = await runSequences(variants, schedule);
    const broken = new Set(
      report.violations.filter((each) => each.invariant === invariant).map((each) => each.sequence),
    );
    const sequence = variants.find(({ index }) => broken.has(index));
    if (!sequence) break;
    smallest = { sequence, report };
    variants = sequence.turns.flatMap((turn, round) => (turn ? [withoutTurn(sequence, round)] : [])).map(renumbered);
    if (turnsOf(sequence) <= 1) break;
  }
  return smallest;
}
