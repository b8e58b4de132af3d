/** Keeps a replica's task keys current when any replica rotates them. */
import type { EvidenceTail } from '../../evidence/tail.ts';
import type { Installation } from '../installation.ts';

export async function followTaskKeys(
  { reloadTaskKeys }: Pick<Installation, 'reloadTaskKeys'>,
  tail: Pick<EvidenceTail, 'subscribe'>,
  onError: (error: unknown) => void,
): Promise<void> {
  tail.subscribe(({ kind }) => {
    if (kind === 'task_key.rotated') reloadTaskKeys().catch(onError);
  });
  // Another replica may have rotated them before the tail began.
  await reloadTaskKeys();
}
