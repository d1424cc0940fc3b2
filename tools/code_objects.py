"""Reads code objects: fatbins (not compressed) and cubins of nvcc, objects of clang for AMD."""

import struct

FATBIN_MAGIC = 0xBA55ED50
FATBIN_ELF = 2  # an entry with a cubin; 1: PTX, which the driver compiles
EM_CUDA = 190
EM_AMDGPU = 224
CUDA_ENTRY = 0x10  # of a symbol's "other": a kernel, not a function that kernels call
AMDGPU_METADATA = 32  # type of a note


def sections_of(elf):
    """[(name, type, address, offset, bytes)] of an ELF file of 64 bits."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    size, count, names_index = struct.unpack_from("<HHH", elf, 58)
    headers = [struct.unpack_from("<IIQQQQ", elf, table + i * size) for i in range(count)]
    names = headers[names_index][4]

    def name_at(offset):
        return elf[names + offset:elf.index(b"\0", names + offset)].decode()

    nobits = 8
    return [(name_at(name), kind, address, offset,
             b"" if kind == nobits else elf[offset:offset + length])
            for name, kind, _, address, offset, length in headers]


def symbols_of(elf):
    """[(name, address, other)] of an ELF file, by number."""
    sections = {name: content for name, _, _, _, content in sections_of(elf)}
    table, names = sections[".symtab"], sections[".strtab"]
    symbols = []
    for at in range(0, len(table), 24):
        name, _, other, _, address, _ = struct.unpack_from("<IBBHQQ", table, at)
        symbols.append((names[name:names.index(b"\0", name)].decode(), address, other))
    return symbols


def cubins_of(fatbin):
    """The cubins in a fatbin."""
    cubins = []
    at = 0
    while at < len(fatbin):
        magic, _, header, length = struct.unpack_from("<IHHQ", fatbin, at)
        if magic != FATBIN_MAGIC:
            raise ValueError(f"expected a fatbin at byte {at}, found {magic:#x}")
        at += header
        end = at + length
        while at < end:
            kind, _, header, length = struct.unpack_from("<HHIQ", fatbin, at)
            if kind == FATBIN_ELF:
                cubins.append(fatbin[at + header:at + header + length])
            at += header + length
        at = (end + 7) // 8 * 8
    return cubins


def cuda_attributes(cubin):
    """[(attribute, number of a symbol, value)] of the functions of a cubin, from .nv.info."""
    info = next((content for name, *_, content in sections_of(cubin) if name == ".nv.info"), b"")
    attributes = []
    at = 0
    while at < len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        if form == 4 and size == 8:
            attributes.append((attribute, *struct.unpack_from("<II", info, at + 4)))
        at += 4 + (size if form == 4 else 0)  # other forms keep their value in the size
    return attributes


def unpack_message(data, at=0):
    """A value of MessagePack, as far as the metadata of AMD uses it, and where it ends."""
    def items(count, at):
        values = []
        for _ in range(count):
            value, at = unpack_message(data, at)
            values.append(value)
        return values, at

    def pairs(count, at):
        values, at = items(2 * count, at)
        return dict(zip(values[::2], values[1::2])), at

    def text(length, at):
        return data[at:at + length].decode(), at + length

    code = data[at]
    at += 1
    if code < 0x80:
        return code, at
    if code < 0x90:
        return pairs(code & 15, at)
    if code < 0xA0:
        return items(code & 15, at)
    if code < 0xC0:
        return text(code & 31, at)
    if code in (0xC2, 0xC3):
        return code == 0xC3, at
    unsigned = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
    if code in unsigned:
        return struct.unpack_from(unsigned[code], data, at)[0], at + struct.calcsize(unsigned[code])
    sized = {0xD9: (">B", text), 0xDA: (">H", text), 0xDC: (">H", items), 0xDE: (">H", pairs)}
    if code in sized:
        form, read = sized[code]
        return read(struct.unpack_from(form, data, at)[0], at + struct.calcsize(form))
    raise ValueError(f"MessagePack: the code {code:#x} is not known here")


def amd_metadata(elf):
    for _, kind, _, _, content in sections_of(elf):
        if kind == 7:  # notes
            name_length, length, note = struct.unpack_from("<III", content)
            if note == AMDGPU_METADATA:
                return unpack_message(content, 12 + (name_length + 3) // 4 * 4)[0]
    raise ValueError("expected a note with the metadata of the kernels, found none")


def bytes_at(elf, address, length):
    for _, _, start, _, content in sections_of(elf):
        if start and start <= address < start + len(content):
            return content[address - start:address - start + length]
    raise ValueError(f"expected a section at {address:#x}, found none")


def images_of(data):
    """[(machine, ELF file)] of a fatbin or an ELF file; machine is EM_CUDA or EM_AMDGPU."""
    if data[:4] != b"\x7fELF":
        return [image for cubin in cubins_of(data) for image in images_of(cubin)]
    machine, = struct.unpack_from("<H", data, 18)
    if machine not in (EM_CUDA, EM_AMDGPU):
        raise ValueError(f"expected a machine of {EM_CUDA} or {EM_AMDGPU}, found {machine}")
    return [(machine, data)]


def cuda_architecture(cubin):
    flags, = struct.unpack_from("<I", cubin, 48)
    return f"sm_{flags >> 8 & 0xFF}"


def amd_architecture(elf):
    return amd_metadata(elf)["amdhsa.target"].split("--")[-1]
