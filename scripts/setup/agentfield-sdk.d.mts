export const sdkVersions: { says_starting: string; says_ready: string };
export function sdkPython(version: string): { program: string; env: Record<string, string> };
