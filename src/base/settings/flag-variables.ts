/**
 * Reads the flags of the agent and the relay from environment variables. A flag overrides its
 * variable.
 */

interface Flag {
  type: 'string' | 'boolean';
  /** May be repeated; a variable holds all values, separated by commas. */
  multiple?: boolean;
}

const yes = ['1', 'true', 'yes', 'on'];

export const flagVariable = (program: string, flag: string): string =>
  `SLIPWAY_${program}_${flag}`.replaceAll('-', '_').toUpperCase();

const parseText = ({ type, multiple }: Flag, text: string): string | string[] | boolean => {
  if (type === 'boolean') return yes.includes(text.toLowerCase());
  return multiple ? text.split(',').map((each) => each.trim()) : text;
};

/** `named` maps flags to variables with special names. An empty variable counts as unset. */
export function withVariables<Values extends object>(
  flagValues: Values,
  flags: Record<string, Flag>,
  env: Record<string, string | undefined>,
  { program, named = {} }: { program: string; named?: Record<string, string> },
): Values {
  const fromVariables = Object.entries(flags).flatMap(([name, flag]) => {
    const text = env[named[name] ?? flagVariable(program, name)];
    return name === 'help' || name in flagValues || !text ? [] : [[name, parseText(flag, text)] as const];
  });
  return { ...flagValues, ...Object.fromEntries(fromVariables) };
}
