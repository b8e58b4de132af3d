/** Types for the size test. */
export function unreadIn(nodeModules: string): string[];
export function isTrimmed(nodeModules: string): boolean;
export function trim(nodeModules: string): void;
