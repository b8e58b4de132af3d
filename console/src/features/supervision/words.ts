/** Describes the brake: the verdicts it holds, the effect, and how a hold ends. Pure. */
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
  hold: 'Its verdicts wait, so it gives up no machine. A machine that comes back is released from the hold.',
  'pause-launches': 'The failures stand, and no new machine is launched there.',
};

export const afterwardsWords: Record<Hold['effect'], string> = {
  hold: 'then it resumes slowly, a few a minute',
  'pause-launches': 'or until a machine comes up there',
};

/** Heartbeats arrive several times a second; a longer delay is worth showing. */
const quietSeconds = 10;

export function hearingWords({ heard_through, at }: Pick<Brake, 'heard_through' | 'at'>): string {
  if (heard_through === null) return 'No replica has reported its heartbeats yet.';
  const behind = (Date.parse(at) - Date.parse(heard_through)) / 1000;
  return behind < quietSeconds
    ? 'All heartbeats have been received.'
    : `Heartbeats of the last ${Math.floor(behind)} s have not arrived at every replica. No machine is called silent for it.`;
}
