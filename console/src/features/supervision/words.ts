/** Describes the brake: how many verdicts it holds, the effect of a hold, and its end. Pure. */
import type { Brake } from '../../../../src/contract/supervision/supervision.ts';

export type Hold = Brake['holds'][number];

export const isOpenHold = (hold: Hold): boolean => hold.ended_at === null && hold.resumed_at === null;

const heldNodes = ({ held }: Pick<Brake, 'held'>): number => held.reduce((sum, { nodes }) => sum + nodes, 0);

/** Short text for a link; null while nothing is held. */
export function heldCount(brake: Pick<Brake, 'held' | 'holding'>): string | null {
  if (!brake.holding) return null;
  const nodes = heldNodes(brake);
  return nodes === 0 ? 'paused' : `${nodes} held`;
}

export function heldHeadline(brake: Pick<Brake, 'held' | 'holding'>): string {
  if (!brake.holding) return 'Nothing is held back';
  const nodes = heldNodes(brake);
  if (nodes === 0) return 'New launches are paused';
  return nodes === 1 ? '1 verdict is held back' : `${nodes} verdicts are held back`;
}

export const effectWords: Record<Hold['effect'], string> = {
  hold: 'The verdicts of this rule wait, so no machine is given up. A machine that returns leaves the hold.',
  'pause-launches': 'The failed machines stay failed, and no new machine is launched there.',
};

export const afterwardsWords: Record<Hold['effect'], string> = {
  hold: 'then the verdicts resume, a few a minute',
  'pause-launches': 'or until a machine comes up there',
};

/** Heartbeats are stored several times a second, so only a longer delay is worth a notice. */
const maxDelaySeconds = 10;

export function heartbeatWords({ heard_through, at }: Pick<Brake, 'heard_through' | 'at'>): string {
  if (heard_through === null) return 'No replica has reported its heartbeats yet.';
  const delaySeconds = (Date.parse(at) - Date.parse(heard_through)) / 1000;
  return delaySeconds < maxDelaySeconds
    ? 'All heartbeats have been received.'
    : `Heartbeats of the last ${Math.floor(delaySeconds)} s have not arrived at every replica. No machine is declared silent meanwhile.`;
}
