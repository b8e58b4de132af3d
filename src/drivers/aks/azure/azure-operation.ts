/**
 * Follows a long-running Azure operation by the SDK's serialized handle, from any process. The
 * handle contains a signed URL, so it is stored and never shown.
 */
import type { ContainerServiceClient, restorePoller } from '@azure/arm-containerservice';
import type { ContainerServiceContext } from '@azure/arm-containerservice/api';
import type { Clock } from '../../../base/clock.ts';
import { isMissing, type ProviderError, providerError, secondsIn } from './azure-error.ts';

export interface FollowedOperation {
  state: 'running' | 'succeeded' | 'failed' | 'canceled';
  error: ProviderError | null;
  /** When Azure wants the next poll. */
  retry_after_seconds: number | null;
  /** The handle to use from now on. */
  operation: string;
}

interface Followers {
  context: ContainerServiceContext;
  restorePoller: typeof restorePoller;
}

interface Heard {
  status: string;
  body: unknown;
  headers: Record<string, string | undefined>;
}

/** The SDK's poller hides the operation's body, so record every response it receives. */
function listening(context: ContainerServiceContext, heard: Heard[]): ContainerServiceClient {
  const pathUnchecked = (path: string) => ({
    get: async (options: object) => {
      const { status, body, headers, ...others } = await context.pathUnchecked(path).get(options);
      heard.push({ status, body, headers });
      return { status, body, headers, ...others };
    },
  });
  return { ...context, pathUnchecked } as unknown as ContainerServiceClient;
}

const never = () => {
  throw new TypeError('an operation that is followed is not begun again');
};

function restored({ context, restorePoller: restore }: Followers, operation: string, heard: Heard[]) {
  try {
    return { poller: restore(listening(context, heard), operation, never) };
  } catch {
    // Written by another version of the SDK. Its error would quote the handle, so it is dropped.
    return null;
  }
}

const isAnswer = (heard: Heard | undefined) => heard?.status === '200' || heard?.status === '202';

/** Any status that is not final counts as running. */
const ends: [RegExp, FollowedOperation['state']][] = [
  [/^succeeded$/i, 'succeeded'],
  [/^failed$/i, 'failed'],
  [/^cancell?ed$/i, 'canceled'],
];
const stateOf = (status = ''): FollowedOperation['state'] => ends.find(([word]) => word.test(status))?.[1] ?? 'running';

export async function followOperation(
  followers: Followers,
  operation: string,
  clock: Clock,
): Promise<FollowedOperation | null> {
  const heard: Heard[] = [];
  const follower = restored(followers, operation, heard);
  if (!follower) return null;
  const { poller } = follower;
  try {
    await poller.poll();
  } catch (error) {
    // The first response is the operation's; later ones are about the cluster, which is read
    // separately.
    if (heard.length === 0 || !isAnswer(heard[0])) {
      if (isMissing(error)) return null;
      throw error;
    }
  }
  const said = heard[0]?.body as { status?: string; error?: unknown } | undefined;
  const state = stateOf(said?.status);
  return {
    state,
    error: providerError(said?.error) ?? null,
    retry_after_seconds: secondsIn(heard[0]?.headers['retry-after'], clock.nowMs()),
    operation: state === 'running' ? await poller.serialize() : operation,
  };
}
