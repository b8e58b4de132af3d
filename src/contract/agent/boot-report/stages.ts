/** Boot stages, named as cloud-init's event names are: `init-network/config-growpart`. */
import { ApiProblem } from '../../errors/errors.ts';
import type { BootStage } from '../../node.ts';

const maxNameLength = 128;

/** Deeper nesting is not cloud-init's; the bound keeps the cost of a report linear. */
const maxOpen = 64;

export function checkOpenStages(open: readonly unknown[]): void {
  if (open.length >= maxOpen)
    throw new ApiProblem('invalid_request', `More than ${maxOpen} boot stages have begun and not finished.`);
}

export const stage = (name: string, seconds: number, parent?: string, starts?: number): BootStage => ({
  name: name.slice(0, maxNameLength),
  seconds,
  ...(parent && { parent: parent.slice(0, maxNameLength) }),
  // A clock that was set back meanwhile makes it negative.
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

/** A stage that ran several times is one stage: it began with the first run and took as long as all of them. */
export function mergeRepeated(stages: readonly BootStage[]): BootStage[] {
  const merged = new Map<string, BootStage>();
  for (const each of stages) {
    const key = JSON.stringify([each.parent, each.name]);
    const before = merged.get(key);
    merged.set(key, { ...each, ...before, seconds: roundToMicroseconds((before?.seconds ?? 0) + each.seconds) });
  }
  return [...merged.values()];
}
