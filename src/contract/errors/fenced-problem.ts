/** The problem that a fenced instance gets. */
import { ApiProblem } from './errors.ts';

export const fencedProblem = (reason: string | null, extra?: { acknowledged_seq: number }) =>
  new ApiProblem('instance_fenced', {
    ...(reason && { detail: `This instance no longer counts: ${reason}.` }),
    ...extra,
  });
