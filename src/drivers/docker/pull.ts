/**
 * Pulls run between the driver's calls, one per image and engine however many machines wait for it.
 * A server crash loses nothing: the next call pulls again, and the engine keeps the layers it has.
 */

import type { NodeInstanceId } from '../../base/ids.ts';
import { createRedactor } from '../../base/redaction/redact.ts';
import type { ProgressPart } from '../../contract/progress.ts';
import type { DriverFailure, DriverWait } from '../driver.ts';
import type { Engine, PullEvent } from './engine.ts';
import { invalidName, isAway, messageOf } from './engine-error.ts';
import { away_seconds, engineAway } from './engine-failure.ts';
import { type RegistryAuth, registryAuth, secretsOf } from './registry-auth.ts';

interface Layer {
  status: string;
  current: number;
  total: number;
  done: boolean;
}

interface PullProgress {
  onEvent(event: PullEvent): void;
  message(): string;
  parts(): ProgressPart[];
}

const isDone = (status: string) => /^(pull complete|already exists|download complete|skipped)/i.test(status);
const isLayer = (event: PullEvent): event is PullEvent & { layer: string } =>
  event.layer !== null && !/^pulling from/i.test(event.status);

const max_parts = 12;

/** Computes the progress of a pull from the engine's events about layers. Pure. */
export function pullProgress(image: string): PullProgress {
  const layers = new Map<string, Layer>();
  const sum = (of: (layer: Layer) => number) => [...layers.values()].reduce((total, layer) => total + of(layer), 0);
  return {
    onEvent(event) {
      if (!isLayer(event)) return;
      const before = layers.get(event.layer) ?? { status: '', current: 0, total: 0, done: false };
      const total = event.total ?? before.total;
      const done = before.done || isDone(event.status);
      // Unpacking counts bytes from zero again; progress must not go back.
      const current = done ? total : Math.max(before.current, event.current ?? 0);
      layers.set(event.layer, { status: event.status, current, total, done });
    },
    message() {
      if (layers.size === 0) return `pulling image ${image}`;
      const total = sum((layer) => layer.total);
      const percent =
        total > 0 ? `, ${Math.floor((100 * sum((layer) => Math.min(layer.current, layer.total))) / total)} %` : '';
      return `pulling image ${image}: ${sum((layer) => Number(layer.done))} of ${layers.size} layers${percent}`;
    },
    parts: () =>
      [...layers].slice(0, max_parts).map(([name, { status, done, current, total }]) => ({
        name,
        kind: 'layer',
        state: status || 'waiting',
        tone: done ? 'ok' : 'busy',
        ...(total > 0 && { detail: `${Math.floor((100 * Math.min(current, total)) / total)} %` }),
      })),
  };
}

const poll_seconds = 1;
const phase = 'pull_image';

interface Pull {
  progress: PullProgress;
  waiters: Set<NodeInstanceId>;
  abort: AbortController;
  /** How it ended; undefined while it runs, null on success. */
  ended: DriverFailure | DriverWait | null | undefined;
}

export interface Pulls {
  /** Returns null once the pull has succeeded, else the driver's answer. */
  ask(engine: Engine, image: string, waiter: NodeInstanceId): Promise<DriverFailure | DriverWait | null>;
  /** Cancels a pull that no machine waits for any more. */
  forget(waiter: NodeInstanceId): void;
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

/** A wrong image name or missing permission stays wrong; an unavailable registry comes back. */
function refusal(engine: Engine, image: string, error: unknown, auth: RegistryAuth | null): DriverFailure | DriverWait {
  const words = createRedactor([], secretsOf(auth)).text(messageOf(error));
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
  /**
   * The failure of a machine's last try. Repeated until the next try gets further, so that a
   * deadline names it.
   */
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
      await engine.pull(image, auth, (event) => pull.progress.onEvent(event), pull.abort.signal);
      pull.ended = null;
    } catch (error) {
      pull.ended = refusal(engine, image, error, auth);
    }
  };

  const begin = (engine: Engine, image: string): Pull => {
    const pull: Pull = {
      progress: pullProgress(image),
      waiters: new Set(),
      abort: new AbortController(),
      ended: undefined,
    };
    pulls.set(keyOf(engine, image), pull);
    void run(engine, image, pull);
    return pull;
  };

  return {
    async ask(engine, image, waiter) {
      const before = pulls.get(keyOf(engine, image));
      // A finished pull counts only for machines that waited for it; for others it may be long ago.
      const pull = before && (before.ended === undefined || before.waiters.has(waiter)) ? before : begin(engine, image);
      pull.waiters.add(waiter);
      if (pull.ended === undefined) {
        const { progress } = pull;
        const last = failures.get(waiter);
        if (last && progress.parts().length === 0) return { ...last, retry_seconds: poll_seconds };
        failures.delete(waiter);
        return {
          outcome: 'wait',
          retry_seconds: poll_seconds,
          message: progress.message(),
          parts: progress.parts(),
          phase,
        };
      }
      pull.waiters.delete(waiter);
      if (pull.waiters.size === 0 && pull === before) pulls.delete(keyOf(engine, image));
      if (pull.ended?.outcome === 'wait') failures.set(waiter, pull.ended);
      else failures.delete(waiter);
      return pull.ended;
    },
    forget(waiter) {
      failures.delete(waiter);
      for (const [key, pull] of pulls) {
        if (!pull.waiters.delete(waiter) || pull.waiters.size > 0) continue;
        pull.abort.abort();
        pulls.delete(key);
      }
    },
  };
}

/**
 * The parser's message would quote the secrets file, so report only its path and the system's code.
 */
const codeOnly = (error: unknown): string =>
  error instanceof Error && 'code' in error ? `${error.code}` : 'it is not the JSON that `docker login` writes';
