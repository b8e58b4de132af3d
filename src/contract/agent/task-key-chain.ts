/**
 * Task keys form a chain: each is signed by its predecessor, so a client that has one key can
 * verify later ones.
 */
import { isSignedWith } from '../../base/credentials/ed25519.ts';
import { canonicalJson } from '../canonical-json.ts';
import type { TaskKey } from './agent.ts';

/**
 * Signed as canonical JSON by the predecessor. The `purpose` distinguishes it from a signed task.
 */
export const endorsementText = ({ kid, public_key }: Pick<TaskKey, 'kid' | 'public_key'>): string =>
  canonicalJson({ purpose: 'slipway-task-key', kid, public_key });

function isTaskKey(value: unknown): value is TaskKey {
  if (typeof value !== 'object' || value === null) return false;
  const { kid, public_key, accepted_until, endorsed_by, endorsement } = value as Record<string, unknown>;
  const isOptionalText = (field: unknown) => field === undefined || typeof field === 'string';
  return (
    typeof kid === 'string' &&
    typeof public_key === 'string' &&
    [accepted_until, endorsed_by, endorsement].every(isOptionalText)
  );
}

export const isTaskKeys = (value: unknown): value is TaskKey[] => Array.isArray(value) && value.every(isTaskKey);

/**
 * `unproven`: no chain leads to a known key. `forged`: a signature is wrong, or a known key id has
 * another key.
 */
export type Continuity = 'known' | 'proven' | 'unproven' | 'forged';

export function continuityOf(key: TaskKey, known: readonly TaskKey[], others: readonly TaskKey[]): Continuity {
  let link = key;
  for (let steps = 0; steps <= others.length; steps++) {
    const knownKey = known.find(({ kid }) => kid === link.kid);
    if (knownKey && knownKey.public_key !== link.public_key) return 'forged';
    if (knownKey) return link === key ? 'known' : 'proven';
    const { endorsed_by, endorsement } = link;
    const endorser = [...known, ...others].find(({ kid }) => kid === endorsed_by);
    if (!endorser || !endorsement) return 'unproven';
    if (!isEndorsed(link, endorser, endorsement)) return 'forged';
    link = endorser;
  }
  return 'unproven';
}

function isEndorsed(key: TaskKey, { public_key }: TaskKey, endorsement: string): boolean {
  try {
    return isSignedWith(public_key, endorsementText(key), endorsement);
  } catch {
    // The endorser's public key cannot be read.
    return false;
  }
}
