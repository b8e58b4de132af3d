/** What commands act on: the world, and what the machines in it remember. */
import type { NodeInstanceId } from '../../../../src/base/ids.ts';
import { ApiProblem } from '../../../../src/contract/errors/errors.ts';
import { isUniqueViolation } from '../../../../src/store/pg/database.ts';
import type { World } from '../world.ts';

export interface Stage {
  world: World;
  /** What each instance was given when it registered. */
  credentials: Map<NodeInstanceId, string>;
}

export function mustHave<T>(value: T | null | undefined): T {
  if (value === null || value === undefined) throw new Error('a command was chosen that is not open here');
  return value;
}

/** To be refused is an outcome like any other, as long as it is said in the product's own words. */
export async function refusable(work: () => Promise<string>): Promise<string> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ApiProblem) return `refused: ${error.code}`;
    if (isUniqueViolation(error, 'nodes_live_name')) return 'refused: somebody was quicker';
    // Its queue deadline was judged between the look and the change; nothing of it was kept.
    if (error instanceof Error && error.message.includes('could not be assigned')) return 'refused: its time was over';
    throw error;
  }
}

export const chunked = <T>(list: readonly T[], size: number): T[][] =>
  Array.from({ length: Math.ceil(list.length / size) }, (_, chunk) => list.slice(chunk * size, (chunk + 1) * size));
