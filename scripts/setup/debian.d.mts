/** Returns the path of a program on this machine, or undefined. */
export function onPath(name: string): string | undefined;
