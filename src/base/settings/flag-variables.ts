/** Reads flags from environment variables. A flag overrides its variable. */

export type Environment = Record<string, string | undefined>;

interface Flag {
  type: 'string' | 'boolean';
  /** May be repeated; a variable holds all values, separated by commas. */
  multiple?: boolean;
}

const yes = ['1', 'true', 'yes', 'on'];
export const isYes = (text: string): boolean => yes.includes(text.toLowerCase());

/** An empty variable counts as unset: container files and units often pass on an empty one. */
export const readVariable = (env: Environment, name: string): string | undefined => env[name] || undefined;

export const flagVariable = (program: string, flag: string): string =>
  `SLIPWAY_${program}_${flag}`.replaceAll('-', '_').toUpperCase();

const parseText = ({ type, multiple }: Flag, text: string): string | string[] | boolean => {
  if (type === 'boolean') return isYes(text);
  return multiple ? text.split(',').map((each) => each.trim()) : text;
};

/**
 * Adds the flags of the agent or the relay that were not typed. `named` maps flags to variables
 * with special names.
 */
export function withVariables<Values extends object>(
  flagValues: Values,
  flags: Record<string, Flag>,
  env: Environment,
  { program, named = {} }: { program: string; named?: Record<string, string> },
): Values {
  const fromVariables = Object.entries(flags).flatMap(([name, flag]) => {
    const text = readVariable(env, named[name] ?? flagVariable(program, name));
    return name === 'help' || name in flagValues || !text ? [] : [[name, parseText(flag, text)] as const];
  });
  return { ...flagValues, ...Object.fromEntries(fromVariables) };
}
