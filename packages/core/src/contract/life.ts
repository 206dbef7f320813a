/** The life of a trainer's process, by name: what makes several processes one writer. */

/** Characters of a life's name, at most. */
export const LIFE_LENGTH_MAX = 256;

/** Why a name cannot be that of a life, to be put behind "it"; `null`: it can be. */
export function lifeProblem(name: string): string | null {
  if (name.trim() === '') return name === '' ? 'is empty' : 'holds only spaces';
  if (name.length > LIFE_LENGTH_MAX) return `has ${name.length} characters`;
  if (/\p{Cc}/u.test(name)) return 'holds a control character';
  if (!name.isWellFormed()) return 'is not well-formed Unicode';
  return null;
}

/** What a name of a life may be, for messages. */
export const LIFE_ACCEPTED = `1 to ${LIFE_LENGTH_MAX} characters, not only spaces, none of them a control character`;
