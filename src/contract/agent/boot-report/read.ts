/**
 * Reads boot stages from the output of `cloud-init analyze`: `blame`, `show`, `boot`, or the JSON
 * of `dump`.
 */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';
import { readDump } from './dump.ts';
import { readLines } from './lines.ts';
import { mergeRepeated } from './stages.ts';

export function readBootReport(text: string): { stages: BootStage[] } {
  const stages = /^\s{0,64}\[/.test(text) ? readDump(text) : readLines(text);
  if (stages.length === 0) throw new ApiProblem('invalid_request', 'The report names no boot stage.');
  return { stages: mergeRepeated(stages) };
}
