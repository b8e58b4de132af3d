/** Boot stages, with cloud-init's event names: `init-network/config-growpart`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';

const maxNameLength = 128;

/** Deeper nesting is not from cloud-init; the bound keeps parsing linear. */
const maxOpen = 64;

export function checkOpenStages(open: readonly unknown[]): void {
  if (open.length >= maxOpen)
    throw new ApiProblem('invalid_request', `More than ${maxOpen} boot stages have begun and not finished.`);
}

export const stage = (name: string, seconds: number, parent?: string, starts?: number): BootStage => ({
  name: name.slice(0, maxNameLength),
  seconds,
  ...(parent && { parent: parent.slice(0, maxNameLength) }),
  // Negative if the clock was set back meanwhile.
  ...(starts !== undefined && starts >= 0 && { starts_seconds: starts }),
});

/** `init-network/config-growpart` is `config-growpart` of `init-network`. */
export function stageAt(path: string, seconds: number, starts?: number): BootStage {
  const slash = path.indexOf('/');
  return slash < 1
    ? stage(path, seconds, undefined, starts)
    : stage(path.slice(slash + 1), seconds, path.slice(0, slash), starts);
}

export const roundToMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;

/** Merges repeated runs of a stage: first start, total duration. */
export function mergeRepeated(stages: readonly BootStage[]): BootStage[] {
  const merged = new Map<string, BootStage>();
  for (const each of stages) {
    const key = JSON.stringify([each.parent, each.name]);
    const before = merged.get(key);
    merged.set(key, { ...each, ...before, seconds: roundToMicroseconds((before?.seconds ?? 0) + each.seconds) });
  }
  return [...merged.values()];
}
