/**
 * Pulls go on between the driver's calls, one for each image of an engine however many machines wait for it. A server that dies
 * loses nothing: the next call asks the engine for the same image, which keeps the layers it has.
 */

import type { NodeInstanceId } from '../../base/ids.ts';
import { createRedactor } from '../../base/redaction/redact.ts';
import type { DriverFailure, DriverWait } from '../driver.ts';
import type { Engine } from './engine.ts';
import { invalidName, isAway, wordsOf } from './engine-error.ts';
import { away_seconds, engineAway } from './engine-failure.ts';
import { type PullProgress, pullProgress } from './pull-progress.ts';
import { type RegistryAuth, registryAuth, secretsOf } from './registry-auth.ts';

const poll_seconds = 1;
const phase = 'pull_image';

interface Pull {
  progress: PullProgress;
  askers: Set<NodeInstanceId>;
  ending: AbortController;
  /** How it ended; undefined while it goes on, null when all is there. */
  ended: DriverFailure | DriverWait | null | undefined;
}

export interface Pulls {
  /** Null once the pull has ended well; the answer to give otherwise. */
  ask(engine: Engine, image: string, asker: NodeInstanceId): Promise<DriverFailure | DriverWait | null>;
  /** Nobody needs a pull that its last asker has given up. */
  forget(asker: NodeInstanceId): void;
}

const failed = (
  code: string,
  message: string,
  owner_layer: DriverFailure['owner_layer'] = 'provider',
): DriverFailure => ({
  outcome: 'failed',
  owner_layer,
  code,
  message,
  retryable: false,
  phase,
});

const saysMissing = /manifest unknown|name unknown|not found|no such image|image not known|does not exist|short-name/i;
const saysDenied = /denied|unauthorized|authentication required|forbidden/i;

/** What is wrong with the image's name or our right to it stays wrong; a registry that is away comes back. */
function refusal(engine: Engine, image: string, error: unknown, auth: RegistryAuth | null): DriverFailure | DriverWait {
  const words = createRedactor([], secretsOf(auth)).text(wordsOf(error));
  if (isAway(error)) return { ...engineAway(engine.address, words), phase };
  if (saysDenied.test(words))
    return failed(
      'image_denied',
      `the registry does not give image ${image} to the engine at ${engine.address}: ${words}`,
    );
  if (saysMissing.test(words) || invalidName.test(words))
    return failed('image_missing', `there is no image ${image} for the engine at ${engine.address}: ${words}`);
  return {
    outcome: 'wait',
    retry_seconds: away_seconds,
    message: `image ${image} could not be pulled (${words}); it is tried again`,
    error: { code: 'image_pull_failed', owner_layer: 'provider' },
    phase,
  };
}

export function createPulls(auth_file: string | null): Pulls {
  const pulls = new Map<string, Pull>();
  /** What the last try of a machine ended with. Repeated until the next try gets further, so that a deadline names it. */
  const failures = new Map<NodeInstanceId, DriverWait>();
  const keyOf = (engine: Engine, image: string) => `${engine.address} ${image}`;

  const run = async (engine: Engine, image: string, pull: Pull) => {
    let auth: RegistryAuth | null = null;
    try {
      auth = await registryAuth(auth_file, image);
    } catch (error) {
      pull.ended = failed(
        'registry_auth_unreadable',
        `--docker-auth-file cannot be read: ${codeOnly(error)}`,
        'control_plane',
      );
      return;
    }
    try {
      await engine.pull(image, auth, (event) => pull.progress.hear(event), pull.ending.signal);
      pull.ended = null;
    } catch (error) {
      pull.ended = refusal(engine, image, error, auth);
    }
  };

  const begin = (engine: Engine, image: string): Pull => {
    const pull: Pull = {
      progress: pullProgress(image),
      askers: new Set(),
      ending: new AbortController(),
      ended: undefined,
    };
    pulls.set(keyOf(engine, image), pull);
    void run(engine, image, pull);
    return pull;
  };

  return {
    async ask(engine, image, asker) {
      const before = pulls.get(keyOf(engine, image));
      // How a pull ended is news for those who waited for it; for anybody else it may be long ago.
      const pull = before && (before.ended === undefined || before.askers.has(asker)) ? before : begin(engine, image);
      pull.askers.add(asker);
      if (pull.ended === undefined) {
        const { progress } = pull;
        const last = failures.get(asker);
        if (last && progress.parts().length === 0) return { ...last, retry_seconds: poll_seconds };
        failures.delete(asker);
        return {
          outcome: 'wait',
          retry_seconds: poll_seconds,
          message: progress.message(),
          parts: progress.parts(),
          phase,
        };
      }
      pull.askers.delete(asker);
      if (pull.askers.size === 0 && pull === before) pulls.delete(keyOf(engine, image));
      if (pull.ended?.outcome === 'wait') failures.set(asker, pull.ended);
      else failures.delete(asker);
      return pull.ended;
    },
    forget(asker) {
      failures.delete(asker);
      for (const [key, pull] of pulls) {
        if (!pull.askers.delete(asker) || pull.askers.size > 0) continue;
        pull.ending.abort();
        pulls.delete(key);
      }
    },
  };
}

/** A file of secrets that does not parse is quoted in the parser's words; its path and the system's code are all that is told. */
const codeOnly = (error: unknown): string =>
  error instanceof Error && 'code' in error ? `${error.code}` : 'it is not the JSON that `docker login` writes';
