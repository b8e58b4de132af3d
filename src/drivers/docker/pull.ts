/**
 * Pulls images in the background, between the driver's calls. All machines that wait for the same
 * image on the same engine share one pull. After a server crash the next call pulls again, and the
 * engine keeps the layers that it has.
 */

import type { NodeInstanceId } from '../../base/ids.ts';
import { createRedactor } from '../../base/redaction/redact.ts';
import type { ProgressPart } from '../../contract/progress.ts';
import type { DriverFailure, DriverWait } from '../driver.ts';
import type { Engine, PullEvent } from './engine.ts';
import { invalidNameMessage, isUnavailable, messageOf } from './engine-error.ts';
import { engineUnavailable, unavailable_retry_seconds } from './engine-failure.ts';
import { type RegistryAuth, readRegistryAuth, secretsOf } from './registry-auth.ts';

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

/** Computes the progress of a pull from the engine's layer events. */
export function pullProgress(image: string): PullProgress {
  const layers = new Map<string, Layer>();
  const sum = (amountOf: (layer: Layer) => number) =>
    [...layers.values()].reduce((total, layer) => total + amountOf(layer), 0);
  return {
    onEvent(event) {
      if (!isLayer(event)) return;
      const previous = layers.get(event.layer) ?? { status: '', current: 0, total: 0, done: false };
      const total = event.total ?? previous.total;
      const done = previous.done || isDone(event.status);
      // Unpacking counts bytes from zero again; the progress must not decrease.
      const current = done ? total : Math.max(previous.current, event.current ?? 0);
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
  /** Undefined while the pull runs, null after success. */
  result: DriverFailure | DriverWait | null | undefined;
}

export interface Pulls {
  /** Starts a pull or joins a running one. Returns null once the pull has succeeded. */
  poll(engine: Engine, image: string, waiter: NodeInstanceId): Promise<DriverFailure | DriverWait | null>;
  /** Removes a machine from all pulls, and cancels a pull that no other machine waits for. */
  stopWaiting(waiter: NodeInstanceId): void;
}

const pullFailed = (
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

const missingMessage =
  /manifest unknown|name unknown|not found|no such image|image not known|does not exist|short-name/i;
const deniedMessage = /denied|unauthorized|authentication required|forbidden/i;

/** A wrong image name or a missing permission is permanent; other errors are retried. */
function pullFailure(
  engine: Engine,
  image: string,
  error: unknown,
  auth: RegistryAuth | null,
): DriverFailure | DriverWait {
  const message = createRedactor([], secretsOf(auth)).text(messageOf(error));
  if (isUnavailable(error)) return { ...engineUnavailable(engine.address, message), phase };
  if (deniedMessage.test(message))
    return pullFailed(
      'image_denied',
      `the registry denies image ${image} to the engine at ${engine.address}: ${message}`,
    );
  if (missingMessage.test(message) || invalidNameMessage.test(message))
    return pullFailed('image_missing', `there is no image ${image} for the engine at ${engine.address}: ${message}`);
  return {
    outcome: 'wait',
    retry_seconds: unavailable_retry_seconds,
    message: `image ${image} could not be pulled (${message}); retrying`,
    error: { code: 'image_pull_failed', owner_layer: 'provider' },
    phase,
  };
}

export function createPulls(auth_file: string | null): Pulls {
  const pulls = new Map<string, Pull>();
  /**
   * Holds the failure of a machine's last pull. It is reported until the next pull makes progress,
   * so that an operation that reaches its deadline names the failure.
   */
  const failures = new Map<NodeInstanceId, DriverWait>();
  const keyOf = (engine: Engine, image: string) => `${engine.address} ${image}`;

  const run = async (engine: Engine, image: string, pull: Pull) => {
    let auth: RegistryAuth | null = null;
    try {
      auth = await readRegistryAuth(auth_file, image);
    } catch (error) {
      pull.result = pullFailed(
        'registry_auth_unreadable',
        `--docker-auth-file cannot be read: ${unreadableReason(error)}`,
        'control_plane',
      );
      return;
    }
    try {
      await engine.pull(image, auth, (event) => pull.progress.onEvent(event), pull.abort.signal);
      pull.result = null;
    } catch (error) {
      pull.result = pullFailure(engine, image, error, auth);
    }
  };

  const begin = (engine: Engine, image: string): Pull => {
    const pull: Pull = {
      progress: pullProgress(image),
      waiters: new Set(),
      abort: new AbortController(),
      result: undefined,
    };
    pulls.set(keyOf(engine, image), pull);
    void run(engine, image, pull);
    return pull;
  };

  return {
    async poll(engine, image, waiter) {
      const existing = pulls.get(keyOf(engine, image));
      // A finished pull counts only for the machines that waited for it: it may be old, and the
      // engine may have removed the image since.
      const pull =
        existing && (existing.result === undefined || existing.waiters.has(waiter)) ? existing : begin(engine, image);
      pull.waiters.add(waiter);
      if (pull.result === undefined) {
        const { progress } = pull;
        const lastFailure = failures.get(waiter);
        if (lastFailure && progress.parts().length === 0) return { ...lastFailure, retry_seconds: poll_seconds };
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
      if (pull.waiters.size === 0 && pull === existing) pulls.delete(keyOf(engine, image));
      if (pull.result?.outcome === 'wait') failures.set(waiter, pull.result);
      else failures.delete(waiter);
      return pull.result;
    },
    stopWaiting(waiter) {
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
 * The JSON parser's message would quote the secrets in the file, so only a system code is named.
 */
const unreadableReason = (error: unknown): string =>
  error instanceof Error && 'code' in error ? `${error.code}` : 'the file is not the JSON that `docker login` writes';
