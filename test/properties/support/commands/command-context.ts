/** Gives commands the fixture and the credentials of the registered machines. */
import type { NodeInstanceId } from '../../../../src/base/ids.ts';
import { ApiProblem } from '../../../../src/contract/errors/errors.ts';
import { isUniqueViolation } from '../../../../src/store/pg/database.ts';
import type { SequenceFixture } from '../sequence-fixture.ts';

export interface CommandContext {
  fixture: SequenceFixture;
  /** The credential that each instance got when it registered. */
  credentials: Map<NodeInstanceId, string>;
}

export function mustHave<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('a command was chosen that is not allowed in this state');
  return value;
}

/** Returns a refusal by the product as text, because a refusal is a valid outcome. */
export async function allowRefusal(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiProblem) return `refused: ${error.code}`;
    if (isUniqueViolation(error, 'nodes_live_name')) return 'refused: another machine took the name first';
    // The allocation's queue deadline passed first, so the assignment was rolled back.
    if (error instanceof Error && error.message.includes('could not be assigned'))
      return 'refused: the queue deadline of the allocation had passed';
    throw error;
  }
}

export const splitIntoChunks = <T>(list: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, chunk) => list.slice(chunk * size, (chunk + 1) * size));
