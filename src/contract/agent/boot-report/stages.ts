/** Builds boot stages from cloud-init's event names, such as `init-network/config-growpart`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';

const maxNameLength = 128;

/** cloud-init does not nest deeper. The limit keeps parsing linear. */
const maxOpen = 64;

export function checkOpenStages(open: readonly unknown[]): void {
  if (open.length >= maxOpen)
    throw new ApiProblem('invalid_request', `More than ${maxOpen} boot stages have started but not finished.`);
}

export const buildStage = (name: string, seconds: number, parent?: string, starts?: number): BootStage => ({
  name: name.slice(0, maxNameLength),
  seconds,
  ...(parent && { parent: parent.slice(0, maxNameLength) }),
  // The start is negative if the clock was set back during the boot.
  ...(starts !== undefined && starts >= 0 && { starts_seconds: starts }),
});

/** `init-network/config-growpart` is `config-growpart` of `init-network`. */
export function buildStageFromPath(path: string, seconds: number, starts?: number): BootStage {
  const slash = path.indexOf('/');
  return slash < 1
    ? buildStage(path, seconds, undefined, starts)
    : buildStage(path.slice(slash + 1), seconds, path.slice(0, slash), starts);
}

export const roundToMicroseconds = (seconds: number): number => Math.round(seconds * 1e6) / 1e6;

/** Merges repeated runs of a stage into one, with the first start and the total duration. */
export function mergeRepeated(stages: readonly BootStage[]): BootStage[] {
  const merged = new Map<string, BootStage>();
  for (const each of stages) {
    const key = JSON.stringify([each.parent, each.name]);
    const earlier = merged.get(key);
    merged.set(key, { ...each, ...earlier, seconds: roundToMicroseconds((earlier?.seconds ?? 0) + each.seconds) });
  }
  return [...merged.values()];
}
