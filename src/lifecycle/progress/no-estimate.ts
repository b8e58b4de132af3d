/** What to say while a first boot takes its time and nothing is known of earlier ones: else a bar that hardly moves looks broken. Pure. */
import type { OperationStatus } from '../model/states.ts';
import type { ComputedProgress } from './progress.ts';

/** A shorter wait is over before anybody has wondered about it. */
const wonderedAtSeconds = 5;
const partsOfBoot: readonly string[] = ['launch', 'register', 'start'];

type Known = Pick<ComputedProgress, 'phase' | 'expected' | 'step_elapsed_seconds'>;

/** Empty where there is an estimate, or no need for one. */
export function noEstimate(status: OperationStatus, { phase, expected, step_elapsed_seconds }: Known): string {
  if (status !== 'running' || expected !== null || !partsOfBoot.includes(phase)) return '';
  return step_elapsed_seconds < wonderedAtSeconds ? '' : 'no earlier boot to compare with, so no estimate';
}
