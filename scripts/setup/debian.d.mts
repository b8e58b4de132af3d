/** Where a program lies on this machine, or undefined. */
export function onPath(name: string): string | undefined;
